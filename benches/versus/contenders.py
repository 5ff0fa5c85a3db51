"""Who is compared, and how each is told to do the same job.

The job: HTTP/1.1 in and out, keep-alive both ways, an origin by consistent hash of host and target, the forwarding
headers, one more try on another origin, and a line for every request in a file. Stock Pingora is the least that its own
proxy service needs: it hashes and forwards, without a log, headers or counters.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

THREADS = 2
TICK = os.sysconf("SC_CLK_TCK")
LOOPBACK = "127.0.0.1"


def free_port():
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


class Running:
    """A server that was started here, with the processes it started itself."""

    def __init__(self, name, command, port, folder, **options):
        self.name, self.port = name, port
        self.output = open(folder / f"{name}.out", "wb")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT, cwd=folder, **options)
        self.ready()

    def ready(self, patience=60):
        """Waits until it accepts connections."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection((LOOPBACK, self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        said = Path(self.output.name).read_text(errors="replace")
        raise RuntimeError(f"{self.name} does not listen:\n{said[-2000:]}")

    def pids(self):
        """Its own process and those below it."""
        found, rest = [], [self.process.pid]
        while rest:
            pid = rest.pop()
            found.append(pid)
            rest += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found

    def cpu(self):
        """Seconds of CPU it has used, user and system."""
        fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids())
        return sum(int(one[11]) + int(one[12]) for one in fields) / TICK

    def memory(self):
        """Bytes of memory it has resident."""
        resident = (Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in self.pids())
        return sum(map(int, resident)) * os.sysconf("SC_PAGE_SIZE")

    def stop(self, patience=5):
        """Ends it: in haste, then by force."""
        for wanted in (signal.SIGINT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(wanted)
                try:
                    self.process.wait(patience)
                except subprocess.TimeoutExpired:
                    pass
        self.output.close()


ORIGIN = """
daemon off; user root; worker_processes 1; error_log stderr error; pid origin.pid; worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 100000000; sendfile on; tcp_nopush on; default_type text/plain;
{servers} }}
"""
ORIGIN_SERVER = """
server {{ listen {address} backlog=4096; root {folder};
  location / {{ return 200 "{body}"; }}
  location /large/ {{ try_files /large =404; }} }}
"""


def origins(folder, count=4):
    """Origins that answer 1 KiB, or 1 MiB below /large/: the running server, and the addresses."""
    (folder / "large").write_bytes(b"x" * (1 << 20))
    addresses = [f"{LOOPBACK}:{free_port()}" for _ in range(count)]
    server = lambda address: ORIGIN_SERVER.format(address=address, folder=folder, body="x" * 1024)
    config = folder / "origin.conf"
    config.write_text(ORIGIN.format(servers="".join(map(server, addresses))))
    command = ["nginx", "-p", str(folder), "-c", str(config)]
    return Running("origin", command, int(addresses[0].rpartition(":")[2]), folder), addresses


NGINX = """
daemon off; user root; worker_processes {threads}; error_log stderr error; pid nginx.pid; worker_rlimit_nofile 65536;
events {{ worker_connections 32768; }}
http {{
  log_format upstream '$remote_addr [$time_local] "$request" $status $host$request_uri $upstream_addr $upstream_status '
                      '$upstream_response_time $request_time -';
  access_log nginx.log upstream buffer=64k flush=1s; keepalive_requests 100000000; proxy_max_temp_file_size 0;
  upstream origin {{ hash $host$request_uri consistent; {servers} keepalive 320;
    keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Request-ID $request_id;
      proxy_next_upstream error timeout; proxy_next_upstream_tries 2; }} }} }}
"""

HAPROXY = """
global
  nbthread {threads}
  maxconn {clients}
  log stdout format raw local0
defaults
  mode http
  log global
  log-format "%ci [%t] %{{+Q}}r %ST %si:%sp %Tr %Ta"
  option http-keep-alive
  option redispatch
  http-reuse always
  retries 1
  timeout connect 1s
  timeout client 65s
  timeout server 10s
frontend clients
  bind 127.0.0.1:{port} backlog 4096
  option forwardfor
  unique-id-format %[uuid()]
  unique-id-header X-Request-ID
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  http-request set-header X-Real-IP %[src]
  default_backend origin
backend origin
  balance uri whole
  hash-type consistent
{servers}
"""


def nginx(folder, addresses, threads=THREADS):
    """nginx."""
    port, config = free_port(), folder / "nginx.conf"
    servers = " ".join(f"server {address};" for address in addresses)
    config.write_text(NGINX.format(threads=threads, servers=servers, port=port))
    return ["nginx", "-p", str(folder), "-c", str(config)], port


def haproxy_clients():
    """How many it takes: it sets two descriptors aside for each, and does not start with too few."""
    return min(24_000, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200) // 2)


def haproxy(folder, addresses, threads=THREADS):
    """HAProxy."""
    port, config = free_port(), folder / "haproxy.cfg"
    servers = "\n".join(f"  server o{number} {address}" for number, address in enumerate(addresses))
    config.write_text(HAPROXY.format(threads=threads, servers=servers, port=port, clients=haproxy_clients()))
    return ["haproxy", "-db", "-f", str(config)], port


def stock(binary):
    """Pingora's own proxy service."""

    def configured(_folder, addresses, threads=THREADS):
        port = free_port()
        return [str(binary), f"{LOOPBACK}:{port}", str(threads), *addresses], port

    return configured


def gateway(binary):
    """This gateway with all it does."""

    def configured(folder, addresses, threads=THREADS):
        port, config = free_port(), folder / "moorgate.json"
        config.write_text(json.dumps(gateway_config(folder, addresses, threads, port)))
        return [str(binary), "run", "--config", str(config)], port

    return configured


def gateway_config(folder, addresses, threads, port):
    """Everything on; requests on a connection without end, as for the others."""
    return {
        "version": 1,
        "process": {
            "threads": threads,
            "listeners": [{"address": f"{LOOPBACK}:{port}"}],
            "admin": {"address": f"{LOOPBACK}:{free_port()}"},
            "control_socket": False,
            "max_connections": 16_000,
            "access_log": {"path": str(folder / "moorgate.log"), "format": "upstream"},
        },
        "client_limits": {"keepalive_requests": 100_000_000},
        "pools": {
            "origin": {
                "args": {"drop": ["utm_*"]},
                "origins": addresses,
                "connections": {"max_requests": False},
                "health": {"probe": {"http": {"path": "/"}}},
            }
        },
    }
