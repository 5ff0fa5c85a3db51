"""Who is compared. Each does the same job, in the way of its own users:

- HTTP/1.1 to the origins over connections that are kept; clients by HTTP/1.1, and by TLS in HTTP/1.1 and HTTP/2
- an origin by consistent hash of host and target (Caddy: by rendezvous hash of the target, it has no other)
- X-Forwarded-For, -Proto, -Host, X-Real-IP and X-Request-ID towards the origin
- a line for every request in a file: client, request, status, origin, times
- a limit of requests a second for each client's address, too high to be reached (Caddy has none without a plugin)
- one more try on another origin where the first fails; no origin is taken out for it
- a check of every origin each five seconds (nginx has none)

Stock Pingora is the exception: the least that its own proxy service needs to hash and to forward.
"""

from dataclasses import dataclass, field

from contenders import free_port

HEADERS = ("for", "proto", "host", "real", "id")


@dataclass
class Task:
    """What a contender is told, besides the job."""

    addresses: list
    certificate: str
    key: str
    threads: int = 2
    # Requests a second of one client.
    limit: int = 1_000_000
    # Open connections at the contender, both ways.
    files: int = 20_000


@dataclass
class Ports:
    """Where a contender listens."""

    plain: int = field(default_factory=free_port)
    tls: int = field(default_factory=free_port)
    admin: int = field(default_factory=free_port)
