#!/usr/bin/env python3
"""The origins of the incidents: small HTTP servers in one process, each with workers and a cache, before one database.

Told what they are by the JSON of the first argument; they answer with one line, their addresses, and then take
commands, one JSON value a line: `{"pause": 2.5}`, `{"rate": 90}`, `{"warm": {ADDRESS: [paths]}}`, `{"report": true}`.
When standard input ends, so do they.

A worker is busy by the clock of the model and not by that of the machine: what ends late because the machine was busy
ends, for the next request in the queue, when it should have. So a busy machine adds to single answers, and never takes
capacity from an origin. A request whose client has gone is worked off all the same, as most servers do.
"""

import asyncio
import collections
import json
import random
import resource
import socket
import sys

PORTS = range(18_801, 18_900)
SAMPLE = 0.25


class Database:
    """One line of queries, so many a second; above that they wait for each other."""

    def __init__(self, rate, takes=0.02):
        self.rate, self.takes = rate, takes
        self.free, self.queries, self.longest = 0.0, 0, 0.0

    def query(self, at):
        """When a query made at this time is answered."""
        self.queries += 1
        begins = max(self.free, at)
        self.longest = max(self.longest, begins - at)
        self.free = begins + 1 / self.rate
        return begins + self.takes


class Origin:
    """Workers that take one request after the other, and a cache whose entries live so long."""

    def __init__(self, loop, database, service, workers, ttl):
        self.loop, self.database, self.service, self.ttl = loop, database, service, ttl
        self.free = [0.0] * workers
        self.waiting = collections.deque()
        self.cache, self.awake = {}, 0.0
        self.requests = self.hits = self.misses = 0

    def take(self, path, reply):
        """A request came."""
        now = self.loop.time()
        if path == "/healthz":
            self.loop.call_at(max(now, self.awake), reply)
            return
        self.requests += 1
        self.waiting.append((now, path.partition("?")[0], reply))
        self.begin()

    def begin(self):
        """Workers that are free take what waits."""
        while self.waiting and self.free:
            asked, key, reply = self.waiting.popleft()
            at = max(asked, self.free.pop(), self.awake)
            self.work(at, key, reply)

    def work(self, at, key, reply):
        """One worker is busy with this key from then on."""
        if self.ttl is not None:
            at = self.looked_up(key, at)
        self.loop.call_at(at + self.service, self.end, at + self.service, reply)

    def looked_up(self, key, at):
        """When what was asked for is at hand: at once from the cache, else when the database has answered."""
        begins, ends = self.cache.get(key, (0.0, 0.0))
        if begins <= at < ends:
            self.hits += 1
            return at
        self.misses += 1
        answered = self.database.query(at)
        if begins <= at:
            self.cache[key] = (answered, answered + self.ttl)
        return answered

    def end(self, ends, reply):
        """A worker is done, unless all of them pause."""
        if ends < self.awake:
            self.loop.call_at(self.awake, self.end, self.awake, reply)
            return
        self.free.append(ends)
        reply()
        self.begin()

    def warm(self, paths, chance):
        """Has each of these in its cache with this probability, for what is left of its time."""
        now = self.loop.time()
        for path in paths:
            if chance.random() < chance.share:
                self.cache[path] = (now, now + chance.random() * self.ttl)


class Connection(asyncio.Protocol):
    """A kept connection; the gateways send one request at a time."""

    def __init__(self, origin, name):
        self.origin, self.name, self.read = origin, name, b""

    def connection_made(self, transport):
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.transport = transport

    def data_received(self, data):
        self.read += data
        while (end := self.read.find(b"\r\n\r\n")) >= 0:
            path = self.read[: self.read.find(b"\r\n")].split(b" ")[1].decode()
            self.read = self.read[end + 4 :]
            self.origin.take(path, self.reply)

    def reply(self):
        if not self.transport.is_closing():
            self.transport.write(f"HTTP/1.1 200 OK\r\nX-Origin: {self.name}\r\nContent-Length: 3\r\n\r\nok\n".encode())


class Stage:
    """All of them, and what was seen of them over time."""

    def __init__(self, loop, model):
        self.loop, self.samples = loop, []
        self.database = Database(model.get("rate", 1e9))
        slow = model.get("slow", {})
        each = lambda number: Origin(
            loop,
            self.database,
            model["service"] * slow.get(str(number), 1),
            model["workers"],
            model.get("ttl"),
        )
        self.origins = {f"127.0.1.{number + 1}": each(number) for number in range(model["origins"])}

    async def listen(self):
        """Listens on the first port that is free at all of their addresses; the same one gives the same ring."""
        for port in PORTS:
            servers = []
            try:
                for host, origin in self.origins.items():
                    made = lambda origin=origin, name=f"{host}:{port}": Connection(origin, name)
                    servers.append(await self.loop.create_server(made, host, port, backlog=4096))
                self.origins = {f"{host}:{port}": origin for host, origin in self.origins.items()}
                return
            except OSError:
                for server in servers:
                    server.close()
        raise RuntimeError("no port is free")

    def sample(self):
        """What was counted until now."""
        self.loop.call_later(SAMPLE, self.sample)
        now, all_of_them = self.loop.time(), list(self.origins.values())
        self.samples.append(
            {
                "at": now,
                "requests": [origin.requests for origin in all_of_them],
                "hits": sum(origin.hits for origin in all_of_them),
                "misses": sum(origin.misses for origin in all_of_them),
                "queries": self.database.queries,
                "wait": max(0.0, self.database.free - now),
            }
        )

    def command(self, line):
        """Does what it is told; answers with one line."""
        told = json.loads(line)
        if "pause" in told:
            for origin in self.origins.values():
                origin.awake = self.loop.time() + told["pause"]
        if "rate" in told:
            self.database.rate, self.database.longest = told["rate"], 0.0
        if "warm" in told:
            chance = random.Random(told["seed"])
            chance.share = told["share"]
            for name, paths in told["warm"].items():
                self.origins[name].warm(paths, chance)
        answer = {"at": self.loop.time(), "queries": self.database.queries, "longest": self.database.longest}
        if "report" in told:
            answer["samples"] = self.samples
        print(json.dumps(answer), flush=True)


async def main():
    loop = asyncio.get_running_loop()
    stage = Stage(loop, json.loads(sys.argv[1]))
    await stage.listen()
    print(json.dumps(list(stage.origins)), flush=True)
    stage.sample()
    told = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while line := await told.readline():
        stage.command(line)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main())
