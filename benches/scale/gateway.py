"""The gateway under a configuration of some size: how it is started, asked and counted."""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import contenders
import load

ORIGIN = """
daemon off; user root; worker_processes 1; error_log stderr error; pid origin.pid; worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 100000000; server {{ listen 0.0.0.0:{port} backlog=4096;
  location / {{ return 200 "{body}"; }} }} }}
"""
# Requests before those that are counted: each key has a connection to its origin by then.
WARM, COUNTED = load.KEYS + 200, 1000
RELOADS = 3


class Gateway(contenders.Running):
    """The gateway, which takes its time to start under callgrind."""

    def ready(self, patience=600):
        super().ready(patience)


class Scene:
    """An origin that answers at every address of the loopback network, and the gateway before it."""

    def __init__(self, binary, folder, files):
        self.binary, self.folder, self.files = binary, folder, files
        self.began, self.port = time.monotonic(), contenders.free_port()
        config = folder / "origin.conf"
        config.write_text(ORIGIN.format(port=self.port, body="x" * 1024))
        command = ["nginx", "-p", str(folder), "-c", str(config)]
        self.started = [contenders.Running("origin", command, self.port, folder)]

    def addresses(self, count):
        """So many origins, each with an address of its own."""
        return [f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}:{self.port}" for number in range(count)]

    def config(self, pools, routes, threads=2):
        """All but the pools and routes is as shipped, but that nothing is probed and connections last: to more origins than
        `keepalive` allows connections, most requests would have to make one."""
        lasting = {"max_requests": False, "keepalive": 16_000, "keepalive_timeout": "1h"}
        quiet = {"health": {"probe": False}, "connections": lasting}
        return {
            "version": 1,
            "process": {
                "threads": threads,
                "listeners": [{"address": f"{contenders.LOOPBACK}:{contenders.free_port()}"}],
                "admin": {"address": f"{contenders.LOOPBACK}:{contenders.free_port()}"},
                "control_socket": False,
                "max_connections": min(16_000, self.files // 2 - 150),
                "access_log": {"path": str(self.folder / "access.log")},
            },
            "client_limits": {"keepalive_requests": 100_000_000},
            "pools": {name: {"origins": origins, **quiet} for name, origins in pools.items()},
            "routes": routes,
        }

    def start(self, config, wrapped=()):
        """The gateway, and how long it took until it accepted."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        path = folder / "gateway.json"
        path.write_text(json.dumps(config, separators=(",", ":")))
        port = int(config["process"]["listeners"][0]["address"].rpartition(":")[2])
        began = time.perf_counter()
        running = Gateway("moorgate", [*wrapped, str(self.binary), "run", "--config", str(path)], port, folder)
        running.path, running.took = path, time.perf_counter() - began
        self.started.append(running)
        return running

    def instructions(self, config, idle=0, busy=0):
        """For a request, of the thread that serves them: what is done once a second is another's. So many connections wait
        meanwhile, and the requests are shared out over so many others in turn; none: over 16 that begin with them."""
        config["process"]["threads"] = 1
        out = self.folder / "callgrind"
        for old in self.folder.glob("callgrind*"):
            old.unlink()
        running = self.start(config, ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={out}"])
        clients = connections(running.port, idle or busy)
        counted = max(COUNTED, busy)
        ask = (lambda requests: load.in_turn(clients, requests)) if busy else (lambda requests: load.exactly(running.port, requests))
        ask(max(WARM, busy))
        settle(running)
        self.dump(running)
        ask(counted)
        self.dump(running)
        for client in clients:
            client.close()
        running.stop(patience=300)
        totals = [re.search(r"^(?:totals|summary): (\d+)", one.read_text(), re.M) for one in self.folder.glob("callgrind.2*")]
        return round(max(int(total.group(1)) for total in totals if total) / counted)

    @staticmethod
    def dump(running):
        """Writes down what was counted since the last time."""
        pid = str(running.process.pid)
        subprocess.run(["callgrind_control", "--dump", pid], check=True, capture_output=True, timeout=300)

    def reloads(self, running, change):
        """Its times in s, and those of requests at a steady pace without it, and with one in each second or as it takes longer."""
        admin = json.loads(running.path.read_text())["process"]["admin"]["address"]
        quiet, took, busy = load.paced(running.port, after(RELOADS)), [], []
        for turn in range(RELOADS):
            config = json.loads(running.path.read_text())
            change(config, turn)
            running.path.write_text(json.dumps(config, separators=(",", ":")))
            time.sleep(0.3)
            done = threading.Event()
            asking = threading.Thread(target=lambda: busy.extend(load.paced(running.port, done.is_set)))
            asking.start()
            began = time.perf_counter()
            answer = json.load(urllib.request.urlopen(f"http://{admin}/reload", b"", timeout=120))
            took.append(time.perf_counter() - began)
            time.sleep(max(0, 1 - took[-1]))
            done.set()
            asking.join()
            if answer["result"] != "applied":
                raise RuntimeError(f"not applied: {answer}")
        return {
            "reload s": round(statistics.median(took), 3),
            "p99 ms": percentile(quiet, 0.99),
            "p99 reloading": percentile(busy, 0.99),
            "most reloading": percentile(busy, 1),
        }

    def progress(self, words):
        """What is measured now, and since when all runs."""
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"[{minutes:2}:{seconds:02}] {words}", file=sys.stderr, flush=True)

    def end(self):
        """Stops whatever still runs."""
        for running in reversed(self.started):
            running.stop()


def connections(port, count):
    """So many that wait, each after one request."""
    clients = []
    for number in range(count):
        clients.append(load.Client(port, f"127.0.0.{2 + number % 8}"))
        clients[-1].ask(number % load.KEYS)
    return clients


def settle(running, patience=120):
    """Waits until it has nothing more to do: a connection gives back what it held for its request once it has idled."""
    end, before = time.monotonic() + patience, sum(running.cpu())
    while time.monotonic() < end:
        time.sleep(1)
        now = sum(running.cpu())
        if now - before < 0.1:
            return
        before = now


def percentile(times, part):
    """In ms."""
    times = sorted(times)
    return round(times[min(len(times) - 1, int(len(times) * part))] * 1000, 2)


def after(seconds):
    """Has this time passed?"""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
