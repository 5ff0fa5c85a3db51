"""What is measured: each job takes the bench and gives how it was run and rows, one for each contender."""

import statistics
import threading
import time

import instructions
import load

IDLE = 10_000
# Requests a second in all while configurations are changed, by this many connections.
PACE, PACED = 2000, 64


class Job:
    """One kind of load, as many rounds as its weight asks for."""

    def __init__(self, title, run, often=False):
        self.title, self.run, self.often = title, run, often

    def rounds(self, bench):
        return bench.rounds if self.often else (bench.rounds + 1) // 2


def plain(bench, ports, **how):
    return load.wrk(f"http://127.0.0.1:{ports.plain}", bench.seconds, bench.folder, **how)


def cpu(ask, origins="few"):
    """A job whose figures are CPU for a request, rate and times, in interleaved rounds."""

    def run(bench, rounds):
        task = bench.task(getattr(bench.origins, origins))
        running = bench.start_all(bench.everybody, task)
        found = {name: [] for name in running}
        warm = bench.seconds
        bench.seconds = 1
        bench.each(running, lambda _, ports: ask(bench, ports))
        bench.seconds = warm
        for number in range(rounds):
            bench.progress(f"round {number + 1} of {rounds}")
            took = bench.each(running, lambda one, ports: measured(one, lambda: ask(bench, ports)), first=number)
            for name, figures in took.items():
                found[name].append(figures)
        rows = [row(name, found, running[name][0].memory()) for name in running if found[name]]
        bench.stop_all(running)
        raw = {name: [round(one["cpu"], 2) for one in figures] for name, figures in found.items()}
        return {"how": f"{rounds} rounds of {bench.seconds} s", "rows": without_empty(rows), "raw": raw}

    return run


def measured(running, ask):
    """What a load took of the proxy."""
    user, system = running.cpu()
    figures = ask()
    after = running.cpu()
    user, system = (1e6 * (end - begin) / figures["requests"] for begin, end in zip((user, system), after))
    rate = figures["requests"] / figures["seconds"]
    return {**figures, "user": user, "system": system, "cpu": user + system, "rate": rate}


def row(name, found, memory):
    """One contender's medians; its ratio to nginx is taken within each round."""
    own = found[name]
    middle = lambda what, digits: round(statistics.median(one[what] for one in own), digits)
    ratios = [one["cpu"] / other["cpu"] for one, other in zip(own, found.get("nginx", []))]
    failed = sum(one["failed"] + one["cut"] for one in own) / sum(one["requests"] for one in own)
    return {
        "proxy": name,
        "CPU µs": middle("cpu", 1),
        "user": middle("user", 1),
        "system": middle("system", 1),
        **spread("x nginx", ratios),
        "requests/s": middle("rate", None),
        "p50 ms": middle("p50", 2),
        "p99 ms": middle("p99", 2),
        "p99.9 ms": middle("p99.9", 2),
        "MiB": round(memory / 2**20, 1),
        "failed": f"{failed:.2%}" if failed else "",
    }


def spread(words, ratios):
    """The median of ratios, the least and the most."""
    found = {words: statistics.median(ratios), "least": min(ratios), "most": max(ratios)} if ratios else {}
    return {name: round(ratio, 2) for name, ratio in found.items()}


def without_empty(rows):
    """A column that nobody has anything in is none."""
    return [{name: value for name, value in row.items() if any(other[name] != "" for other in rows)} for row in rows]


def idle(bench, _rounds):
    """Memory of connections that wait, each after one request; one contender at a time."""
    rows = []
    for peer in bench.everybody:
        task = bench.task(bench.origins.few)
        most = peer.clients(task) - 50 if hasattr(peer, "clients") else task.files - 1000
        count = min(IDLE, most)
        bench.progress(peer.name)
        clients = []
        try:
            running, ports = bench.start(peer, task)
            load.exactly(ports.plain, 2000)
            before = running.memory()
            for number in range(count):
                clients.append(load.Client(ports.plain, f"127.0.0.{2 + number % 8}"))
                clients[-1].ask(number % load.KEYS)
            time.sleep(1)
            after = running.memory()
            running.stop()
        except (RuntimeError, OSError) as problem:
            bench.failed(peer.name, problem)
            continue
        finally:
            for client in clients:
                client.close()
        each = round((after - before) / count / 1024, 2)
        rows.append({"proxy": peer.name, "connections": count, "KiB each": each, "MiB in all": round(after / 2**20, 1)})
    return {"how": "once", "rows": rows}


def reload(bench, rounds):
    """The same pace without a reload and with one a second, each of which adds an origin or takes it away."""
    able = [peer for peer in bench.everybody if peer.reload]
    running = bench.start_all(able, bench.task(bench.origins.few))
    peers = {peer.name: peer for peer in able}
    seconds = 2 * bench.seconds
    pace = lambda ports: load.wrk(
        f"http://127.0.0.1:{ports.plain}", seconds, bench.folder, connections=PACED, pace=1000 * PACED // PACE
    )
    found = {name: [] for name in running}

    def both(one, ports):
        quiet = measured(one, lambda: pace(ports))
        with Reloads(bench, peers[one.label], one, ports) as reloads:
            busy = measured(one, lambda: pace(ports))
        return quiet, busy, reloads.took

    for number in range(rounds):
        bench.progress(f"round {number + 1} of {rounds}")
        for name, figures in bench.each(running, both, first=number).items():
            found[name].append(figures)
    rows = [reload_row(name, found[name], running[name][0].memory()) for name in running if found[name]]
    bench.stop_all(running)
    return {"how": f"{rounds} rounds of {seconds} s without and {seconds} s with reloads", "rows": rows}


class Reloads:
    """One a second, in a thread of its own, until the block ends."""

    def __init__(self, bench, peer, running, ports):
        self.bench, self.peer, self.running, self.ports = bench, peer, running, ports
        self.took, self.problem, self.done = [], None, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        few = self.bench.origins.few
        try:
            while not self.done.wait(1 if self.took else 0.3):
                origins = few if len(self.took) % 2 else [*few, self.bench.origins.spare]
                self.peer.configure(self.running.folder, self.bench.task(origins), self.ports)
                began = time.perf_counter()
                self.peer.reload(self.running, self.ports)
                self.took.append(time.perf_counter() - began)
        except (RuntimeError, OSError) as problem:
            self.problem = problem

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        if self.problem:
            raise RuntimeError(f"a reload failed: {self.problem}")


def reload_row(name, rounds, memory):
    """Medians, without and with reloads."""
    middle = lambda which, what: round(statistics.median(one[which][what] for one in rounds), 2)
    ratios = [busy["p99"] / quiet["p99"] for quiet, busy, _ in rounds]
    return {
        "proxy": name,
        "p50 ms": middle(0, "p50"),
        "p99 ms": middle(0, "p99"),
        "p50 reloading": middle(1, "p50"),
        "p99 reloading": middle(1, "p99"),
        "p99.9 reloading": middle(1, "p99.9"),
        **spread("x quiet", ratios),
        "CPU µs": middle(0, "cpu"),
        "CPU µs reloading": middle(1, "cpu"),
        "reloads": sum(len(took) for *_, took in rounds),
        "failed": sum(busy["failed"] for _, busy, _ in rounds),
        "connections closed": sum(busy["cut"] for _, busy, _ in rounds),
        "MiB": round(memory / 2**20, 1),
    }


JOBS = {
    "small": Job("1 KiB, 64 keep-alive connections", cpu(plain), often=True),
    "medium": Job("16 KiB, 64 keep-alive connections", cpu(lambda b, p: plain(b, p, folder="/medium/"))),
    "large": Job("1 MiB, 64 keep-alive connections", cpu(lambda b, p: plain(b, p, folder="/large/"))),
    "close": Job("1 KiB, a connection for each request", cpu(lambda b, p: plain(b, p, close=True)), often=True),
    "tls": Job(
        "1 KiB by TLS, 64 keep-alive connections",
        cpu(lambda b, p: load.wrk(f"https://localhost:{p.tls}", b.seconds, b.folder)),
        often=True,
    ),
    "handshakes": Job(
        "1 KiB by TLS, a new handshake for each request",
        cpu(lambda b, p: load.handshakes(p.tls, b.seconds, b.folder, resumed=False)),
    ),
    "resumed": Job(
        "1 KiB by TLS, a resumed session for each request",
        cpu(lambda b, p: load.handshakes(p.tls, b.seconds, b.folder, resumed=True)),
    ),
    "h2": Job(
        "1 KiB by HTTP/2 over TLS, 16 connections of 8 streams",
        cpu(lambda b, p: load.h2load(p.tls, b.seconds, b.folder)),
        often=True,
    ),
    "many": Job("1 KiB from 1000 origins", cpu(lambda b, p: plain(b, p, keys=4000), origins="many")),
    "failing": Job("1 KiB, one of four origins fails a fifth of its requests", cpu(plain, origins="one_fails")),
    "reload": Job(f"1 KiB at {PACE} requests a second, a reload each second", reload),
    "idle": Job(f"{IDLE:,} idle connections, each after one request", idle),
    "instructions": Job("User-space instructions for a request of 1 KiB, one thread (valgrind)", instructions.run),
}
