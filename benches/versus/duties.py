"""Does each contender do the job? Asked on the wire before anything is measured."""

import collections
import http.client
import re
import time
from dataclasses import replace

import load
import peers

KEYS = 400


def ask(port, target, connection=None):
    """Status, header lines and body."""
    asked = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    asked.request("GET", target, headers={"Host": load.HOST})
    answer = asked.getresponse()
    return answer.status, answer, answer.read().decode()


def owners(port):
    """Who answered each key."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    return [ask(port, load.target(key), connection)[1].getheader("X-Origin") for key in range(KEYS)]


def looked_at(bench, peer):
    """What it was seen to do, in words; a duty that it leaves out is told, not hidden."""
    return {"proxy": peer.name, **hashed(bench, peer), **limited(bench, peer), **retried(bench, peer)}


def hashed(bench, peer):
    """Key, log, headers, and whether a reload takes a further origin in."""
    task = bench.task(bench.origins.few)
    running, ports = bench.start(peer, task)
    first, again = owners(ports.plain), owners(ports.plain)
    shares = collections.Counter(first)
    found = {"same key, same origin": said(first == again), "origins": len(shares)}
    found["largest share"] = f"{max(shares.values()) / KEYS:.0%}"
    found["log"] = said(logged(running, peer, 2 * KEYS))
    sent = dict(re.findall(r"(\w+)=(\S*)", ask(ports.plain, "/echo")[2]))
    found["headers to origin"] = ", ".join(name for name in peers.HEADERS if sent.get(name)) or "none"
    found["reload"] = "none"
    if peer.reload:
        peer.configure(running.folder, bench.task([*bench.origins.few, bench.origins.spare]), ports)
        peer.reload(running, ports)
        found["reload"] = said(eventually(lambda: bench.origins.spare in owners(ports.plain)))
    running.stop()
    return found


def logged(running, peer, count):
    """Has every request a line, with its target and its origin's name or address?"""
    if not peer.log:
        return False
    path = running.folder / peer.log
    lines = lambda: [line for line in path.read_text().splitlines() if "/img/" in line] if path.exists() else []
    return eventually(lambda: len(lines()) == count)


def limited(bench, peer):
    """With a limit of five a second, are some of fifty requests turned away?"""
    running, ports = bench.start(peer, replace(bench.task(bench.origins.few), limit=5))
    statuses = collections.Counter(ask(ports.plain, load.target(1))[0] for _ in range(50))
    running.stop()
    refused = statuses[429] + statuses[503]
    return {"limit": said(0 < refused < 50 and refused + statuses[200] == 50)}


def retried(bench, peer):
    """Of a thousand requests, of which one in twenty meets an origin that ends it: how many fail."""
    running, ports = bench.start(peer, bench.task(bench.origins.one_fails))
    failed = 0
    for key in range(1000):
        try:
            failed += ask(ports.plain, load.target(key))[0] != 200
        except (http.client.HTTPException, ConnectionError):
            failed += 1
    running.stop()
    return {"failed of 1000": failed}


def said(is_so):
    return "yes" if is_so else "no"


def eventually(holds, patience=8):
    """Does it come to hold?"""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if holds():
                return True
        except (http.client.HTTPException, OSError):  # a process that leaves closes its connections
            pass
        time.sleep(0.1)
    return False
