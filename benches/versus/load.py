"""Requests: as many as go through, an exact number, or at a pace.

Targets differ in a thousand keys, and their arguments come in an order that a normalising key has to change.
"""

import re
import selectors
import socket
import subprocess
import time

HOST = "img.example.com"
KEYS = 1000

SCRIPT = """
local requests, at = {{}}, 0
init = function()
  for key = 0, {keys} - 1 do
    requests[key] = wrk.format("GET", "{folder}" .. key .. ".jpg?w=640&v=" .. key, {{ Host = "{host}" }})
  end
end
request = function() at = (at + 1) % {keys} return requests[at] end
"""


def target(key, folder="/img/"):
    """The target of this key."""
    return f"{folder}{key}.jpg?w=640&v={key}"


def saturate(port, seconds, folder, where, connections=64):
    """Requests answered within so many seconds over so many connections; every one of them has to succeed."""
    script = where / "wrk.lua"
    script.write_text(SCRIPT.format(keys=KEYS, folder=folder, host=HOST))
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "-s", str(script), f"http://127.0.0.1:{port}"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"requests failed:\n{said}")
    return int(re.search(r"(\d+) requests in", said).group(1))


class Client:
    """One connection, one request at a time."""

    def __init__(self, port, source=None):
        self.socket = socket.create_connection(("127.0.0.1", port), 20, source and (source, 0))
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


def paced(port, until, host=HOST, every=0.002):
    """Times of requests sent at this pace until `until` says so."""
    client, times, due = Client(port), [], time.perf_counter()
    while not until():
        due = max(due + every, time.perf_counter())
        time.sleep(max(0, due - time.perf_counter()))
        times.append(client.ask(len(times) % KEYS, host))
    client.close()
    return times
