"""Requests: as many as go through, an exact number, or at a pace; a connection or a handshake for each, or none.

Targets differ in a thousand keys, and their arguments come in an order that a normalising key has to change.
"""

import collections
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path

HOST = "img.example.com"
KEYS = 1000

# What a client offers decides what is negotiated, so that nobody is measured by a cipher of its own choice.
TLS = """
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = clients
[clients]
MinProtocol = TLSv1.3
Ciphersuites = TLS_AES_128_GCM_SHA256
Groups = X25519
"""

SCRIPT = """
local requests, at = {{}}, math.random(0, {keys} - 1)
local headers = {{ Host = "{host}", ["User-Agent"] = "wrk" }}
if {close} then headers["Connection"] = "close" end
init = function()
  math.randomseed(os.time())
  for key = 0, {keys} - 1 do
    requests[key] = wrk.format("GET", "{folder}" .. key .. ".jpg?w=640&v=" .. key, headers)
  end
end
request = function() at = (at + 1) % {keys} return requests[at] end
{pace}
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('{{"requests": %d, "seconds": %f, "p50": %f, "p99": %f, "p99.9": %f, "failed": %d, "cut": %d}}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    latency:percentile(99.9) / 1000, errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""


def target(key, folder="/img/"):
    """The target of this key."""
    return f"{folder}{key}.jpg?w=640&v={key}"


def environment(where):
    """For clients of TLS."""
    config = where / "clients.cnf"
    config.write_text(TLS)
    return {**os.environ, "OPENSSL_CONF": str(config)}


def wrk(url, seconds, where, folder="/img/", connections=64, keys=KEYS, close=False, pace=0):
    """Requests answered within so many seconds, and their times in ms. `pace`: ms between two of a connection."""
    script = where / "wrk.lua"
    paced = f"delay = function() return math.random({pace // 2}, {pace * 3 // 2}) end" if pace else ""
    script.write_text(SCRIPT.format(keys=keys, folder=folder, host=HOST, close=str(close).lower(), pace=paced))
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", str(script), url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, env=environment(where))
    if run.returncode:
        raise RuntimeError(f"wrk: {run.stderr or run.stdout}")
    return json.loads(run.stdout[run.stdout.rindex("{") :])


def h2load(port, seconds, where, connections=16, streams=8):
    """The same by HTTP/2 over TLS, so many streams at once on each connection."""
    targets, log = where / "h2load.targets", where / "h2load.log"
    targets.write_text("".join(f"https://{HOST}{target(key)}\n" for key in range(KEYS)))
    log.unlink(missing_ok=True)
    command = ["h2load", "-t1", f"-c{connections}", f"-m{streams}", f"-D{seconds}", "-i", str(targets)]
    command += [f"--log-file={log}", f"--connect-to=127.0.0.1:{port}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, env=environment(where))
    if run.returncode or "Application protocol: h2" not in run.stdout:
        raise RuntimeError(f"h2load: {run.stdout}{run.stderr}")
    took, failed = [], 0
    for line in log.read_text().splitlines():
        _, status, micros = line.split("\t")[:3]
        failed += status != "200"
        took.append(int(micros) / 1000)
    return {"seconds": seconds, **times(took), "failed": failed, "cut": 0}


def handshakes(port, seconds, where, resumed, clients=4):
    """A connection by TLS for each request, and whether its session was resumed is looked at each time."""
    command = [sys.executable, str(Path(__file__).parent / "handshakes.py"), str(port), str(seconds)]
    command += ["resumed" if resumed else "new"]
    began = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(where)) for _ in range(clients)]
    took = []
    for one in began:
        said, _ = one.communicate(timeout=seconds + 60)
        if one.returncode:
            raise RuntimeError("a client of TLS failed")
        took += json.loads(said)
    return {"seconds": seconds, **times(took), "failed": 0, "cut": 0}


def times(took):
    """How many there were, and their percentiles."""
    took = sorted(took)
    at = lambda part: took[min(len(took) - 1, int(len(took) * part))]
    return {"requests": len(took), "p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999)}


class Client:
    """One connection, one request at a time."""

    def __init__(self, port, source=None, patience=60):
        self.socket = socket.create_connection(("127.0.0.1", port), patience, source and (source, 0))
        self.missing, self.head = 0, b""

    def send(self, key, host=HOST):
        """Asks for this key."""
        self.socket.sendall(f"GET {target(key)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        self.missing, self.head = -1, b""

    def take(self):
        """Takes what came; is the answer whole?"""
        data = self.socket.recv(65536)
        if not data:
            raise RuntimeError("closed before the end of an answer")
        if self.missing < 0:
            self.head += data
            head, end, body = self.head.partition(b"\r\n\r\n")
            if not end:
                return False
            if b" 200 " not in head.split(b"\r\n")[0]:
                raise RuntimeError(f"answered with {head.split(chr(13).encode())[0]}")
            length = int(re.search(rb"(?i)\ncontent-length: *(\d+)", head).group(1))
            self.missing, data = length, body
        self.missing -= len(data)
        return self.missing == 0

    def ask(self, key, host=HOST):
        """A whole request; how long its answer took."""
        began = time.perf_counter()
        self.send(key, host)
        while not self.take():
            pass
        return time.perf_counter() - began

    def close(self):
        self.socket.close()


def exactly(port, requests, connections=16):
    """So many requests, each connection with one on its way."""
    ready = selectors.DefaultSelector()
    for number in range(connections):
        client = Client(port)
        ready.register(client.socket, selectors.EVENT_READ, client)
        client.send(number)
    sent, done = connections, 0
    while done < requests:
        events = ready.select(60)
        if not events:
            raise RuntimeError("no answer within a minute")
        for event, _ in events:
            client = event.data
            if not client.take():
                continue
            done += 1
            if sent < requests:
                client.send(sent % KEYS)
                sent += 1
    for event in list(ready.get_map().values()):
        event.data.close()


def in_turn(clients, requests, at_once=16):
    """So many requests over clients that are connected, each of them in its turn."""
    waiting, free, sent, done = selectors.DefaultSelector(), collections.deque(clients), 0, 0
    while done < requests:
        while sent < requests and sent - done < at_once and free:
            client = free.popleft()
            client.send(sent % KEYS)
            waiting.register(client.socket, selectors.EVENT_READ, client)
            sent += 1
        events = waiting.select(60)
        if not events:
            raise RuntimeError("no answer within a minute")
        for event, _ in events:
            if event.data.take():
                waiting.unregister(event.data.socket)
                free.append(event.data)
                done += 1


def spread(clients, seconds, rate):
    """Times of requests at a pace, each of the clients in its turn, however long the answers before it take."""
    waiting, times, due, number = selectors.DefaultSelector(), [], time.perf_counter(), 0
    end, waits = due + seconds, set()
    while due < end or waits:
        now = time.perf_counter()
        if now > end + 60:
            raise RuntimeError("no answer within a minute")
        while due <= now and due < end:
            client = clients[number % len(clients)]
            if client in waits:  # its answer before is late: so is this one
                break
            client.send(number % KEYS)
            client.due = due
            waiting.register(client.socket, selectors.EVENT_READ, client)
            waits.add(client)
            due, number = due + 1 / rate, number + 1
        for event, _ in waiting.select(max(0, min(0.1, due - time.perf_counter())) if due < end else 0.1):
            client = event.data
            if client.take():
                times.append(time.perf_counter() - client.due)
                waiting.unregister(client.socket)
                waits.discard(client)
    return times


def paced(port, until, host=HOST, every=0.002):
    """Times of requests sent at this pace until `until` says so."""
    client, times, due = Client(port), [], time.perf_counter()
    while not until():
        due = max(due + every, time.perf_counter())
        time.sleep(max(0, due - time.perf_counter()))
        times.append(client.ask(len(times) % KEYS, host))
    client.close()
    return times
