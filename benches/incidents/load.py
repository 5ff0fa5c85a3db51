#!/usr/bin/env python3
"""Requests at a steady pace, whatever the answers do, and what became of each.

Told what to do by the JSON of the first argument. Nobody waits for an answer before the next request goes out: an edge
full of clients does not either. A request on a kept connection that closed without a byte is sent once more on a new
one, as every client does. Prints one JSON object: `late` (how far behind it was at worst, in seconds), `unanswered`,
and `rows` of `[sent at, seconds, status, object, origin]`; status 0: no answer.
"""

import asyncio
import json
import random
import resource
import sys

PATIENCE = 30.0
SOURCES = [f"127.0.0.{number}" for number in range(2, 10)]


class Connection(asyncio.Protocol):
    """A kept connection with at most one request on its way."""

    def __init__(self, load):
        self.load, self.asked, self.read, self.served = load, None, b"", 0

    def connection_made(self, transport):
        self.transport = transport

    def ask(self, asked):
        """Sends a request; the connection is idle."""
        self.asked, self.read = asked, b""
        self.transport.write(f"GET {asked.target} HTTP/1.1\r\nHost: img.example.com\r\n\r\n".encode())

    def data_received(self, data):
        self.read += data
        head, end, body = self.read.partition(b"\r\n\r\n")
        if not end or self.asked is None:
            return
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if len(body) < int(headers.get("content-length", 0)):
            return
        asked, self.asked = self.asked, None
        self.served += 1
        self.load.ended(asked, int(status.split()[1]), headers.get("x-origin"))
        if headers.get("connection", "").lower() == "close":
            self.transport.close()
        else:
            self.load.idle.append(self)

    def connection_lost(self, _):
        if self in self.load.idle:
            self.load.idle.remove(self)
        asked, self.asked = self.asked, None
        if asked is None:
            return
        if self.served and not self.read and not asked.again:
            asked.again = True
            self.load.fresh(asked)
        else:
            self.load.ended(asked, 0, None)


class Asked:
    """A request on its way."""

    def __init__(self, at, key, target):
        self.at, self.key, self.target, self.again = at, key, target, False


class Load:
    """All requests of a run."""

    def __init__(self, loop, plan):
        self.loop, self.plan = loop, plan
        self.idle, self.rows, self.late, self.open, self.tasks = [], [], 0.0, 0, set()
        self.random = random.Random(plan["seed"])

    async def run(self):
        began, rate, total = self.plan["at"], self.plan["rate"], int(self.plan["rate"] * self.plan["seconds"])
        for number in range(total):
            wait = began + number / rate - self.loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            self.late = max(self.late, -wait)
            self.send(number)
        deadline = self.loop.time() + PATIENCE
        while self.open and self.loop.time() < deadline:
            await asyncio.sleep(0.01)

    def send(self, number):
        """The next request: any object, some with a timestamp of their own."""
        key = self.random.randrange(self.plan["objects"])
        noise = f"?ts={number}" if self.random.random() < self.plan["noise"] else ""
        asked = Asked(self.loop.time(), key, f"/obj/{key}{noise}")
        self.open += 1
        while self.idle:
            connection = self.idle.pop()
            if not connection.transport.is_closing():
                return connection.ask(asked)
        return self.fresh(asked)

    def fresh(self, asked):
        """Sends it on a new connection."""
        task = self.loop.create_task(self.connect(asked))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def connect(self, asked):
        source = (SOURCES[asked.key % len(SOURCES)], 0)
        to = ("127.0.0.1", self.plan["port"])
        try:
            _, connection = await self.loop.create_connection(lambda: Connection(self), *to, local_addr=source)
        except OSError:
            return self.ended(asked, 0, None)
        return connection.ask(asked)

    def ended(self, asked, status, origin):
        """A request is over."""
        self.open -= 1
        took = self.loop.time() - asked.at
        self.rows.append([round(asked.at, 4), round(took, 4), status, asked.key, origin])


async def main():
    load = Load(asyncio.get_running_loop(), json.loads(sys.argv[1]))
    await load.run()
    print(json.dumps({"late": load.late, "unanswered": load.open, "rows": load.rows}))


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main())
