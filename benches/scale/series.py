"""What grows, in which steps, and what is measured at each."""

import time

import load
from gateway import connections, percentile, settle

# Requests a second, over all connections.
PACE = 2000
ASKED = {"name": "asked", "pool": "asked", "match": {"hosts": [load.HOST]}}


class Series:
    """One thing that grows."""

    def __init__(self, title, of, sizes, run):
        self.title, self.of, self.sizes, self.run = title, of, sizes, run

    def measure(self, scene, size):
        """A row."""
        scene.progress(f"{size:,} {self.of}")
        return {self.of: size, **self.run(scene, size)}


def lived(scene, config, change):
    """Start, memory and reloads of a process that nobody counts the instructions of."""
    running = scene.start(config)
    load.exactly(running.port, 2000)
    memory = round(running.memory() / 2**20, 1)
    found = {"start s": round(running.took, 2), "MiB": memory, **scene.reloads(running, change)}
    running.stop()
    return found


def origins(scene, size):
    """The pool that is asked has so many origins; the one that is changed by reloads as many that nobody asks for."""
    many = scene.addresses(size)
    counted = scene.instructions(scene.config({"asked": many}, [ASKED]))
    beside = {"name": "beside", "pool": "beside", "match": {"hosts": ["beside.example.com"]}}
    config = scene.config({"asked": many[:4], "beside": weighed(many)}, [ASKED, beside])
    return {"instructions": counted, **lived(scene, config, reweigh)}


def pools(scene, size):
    """So many pools of 100 origins that are all changed by a reload."""
    config = scene.config({"asked": scene.addresses(4)}, [ASKED])
    for number in range(size):
        name = f"p{number}"
        config["pools"][name] = {"origins": weighed(scene.addresses(100)), "health": {"probe": False}}
        config["routes"].append({"name": name, "pool": name, "match": {"hosts": [f"{name}.example.com"]}})
    return lived(scene, config, reweigh)


def routes(match, last):
    """So many routes, of which the last is asked for."""

    def run(scene, size):
        described = [{"name": f"r{number}", "pool": "asked", "match": match(number)} for number in range(size - 1)]
        described.append({"name": "asked", "pool": "asked", "match": last})
        config = scene.config({"asked": scene.addresses(10)}, described)
        counted = scene.instructions(config)
        config["process"]["threads"] = 2
        return {"instructions": counted, **lived(scene, config, retime)}

    return run


def idle(scene, size):
    """So many connections wait, each after one request."""
    size = min(size, scene.files // 2 - 400)
    counted = scene.instructions(scene.config({"asked": scene.addresses(10)}, [ASKED]), size)
    running = scene.start(scene.config({"asked": scene.addresses(10)}, [ASKED]))
    load.exactly(running.port, 2000)
    before = running.memory()
    clients = connections(running.port, size)
    time.sleep(1.5)
    after = running.memory()
    for client in clients:
        client.close()
    running.stop()
    return {"instructions": counted, "MiB": round(after / 2**20, 1), "KiB each": round((after - before) / size / 1024, 2)}


def busy(scene, size):
    """So many connections, each of which is asked in its turn."""
    size = min(size, scene.files // 2 - 400)
    counted = scene.instructions(scene.config({"asked": scene.addresses(10)}, [ASKED]), busy=size)
    running = scene.start(scene.config({"asked": scene.addresses(10)}, [ASKED]))
    clients = connections(running.port, size)
    load.in_turn(clients, max(size, 2000))
    settle(running)
    began = sum(running.cpu())
    times = load.spread(clients, max(4, 2 * size // PACE), PACE)
    cpu = sum(running.cpu()) - began
    found = {"instructions": counted, "CPU µs": round(1e6 * cpu / len(times), 1), "MiB": round(running.memory() / 2**20, 1)}
    for client in clients:
        client.close()
    running.stop()
    return {**found, "p50 ms": percentile(times, 0.5), "p99 ms": percentile(times, 0.99)}


def weighed(addresses):
    return [{"address": address, "weight": 1} for address in addresses]


def reweigh(config, turn):
    """Every other origin of the pools that nobody asks gets another weight."""
    for name, pool in config["pools"].items():
        if name != "asked":
            for origin in pool["origins"][::2]:
                origin["weight"] = 2 - turn % 2


def retime(config, turn):
    """Every fourth route gets another limit of time: of all, 10,000 would be more than the MiB a file may have."""
    for route in config["routes"][::4]:
        route["timeouts"] = {"total": f"{30 + turn % 2}s"}


def host(number):
    return {"hosts": [f"h{number}.example.com"]}


def path(number):
    return {"path": {"prefix": f"/s{number}/"}}


def regex(number):
    return {"path": {"regex": f"/s{number}/[a-z]+/[0-9]+"}}


FEW = (1, 10, 100, 1000, 10_000)
SERIES = {
    "origins": Series("Origins in a pool", "origins", (10, 100, 1000, 10_000), origins),
    "hosts": Series("Routes, each with a host of its own", "routes by host", FEW, routes(host, {"hosts": [load.HOST]})),
    "paths": Series(
        "Routes, each with a prefix of its own",
        "routes by path",
        FEW,
        routes(path, {"path": {"prefix": "/img/"}}),
    ),
    "regexes": Series(
        "Routes, each with a regex of its own",
        "routes by regex",
        FEW,
        routes(regex, {"path": {"regex": "/img/[0-9]+\\.jpg"}}),
    ),
    "idle": Series("Connections that wait", "idle connections", (10, 100, 1000, 10_000), idle),
    "connections": Series(
        f"Connections, each asked in its turn, {PACE:,} requests a second in all",
        "connections",
        (10, 100, 1000, 10_000),
        busy,
    ),
    "pools": Series("Pools of 100 origins, all changed by a reload", "pools", (1, 10, 100), pools),
}
