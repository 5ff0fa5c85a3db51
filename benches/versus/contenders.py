"""A server that was started here: whether it listens, what CPU and memory it took, its end."""

import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
LOOPBACK = "127.0.0.1"


def free_port():
    """A port that nobody has now, of those the system gives to no outgoing connection meanwhile."""
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, max(below, 10_001 + 20_000))
        try:
            with socket.socket() as probe:
                probe.bind(("", port))
                return port
        except OSError:
            continue


class Running:
    """A server that was started here, with the processes it started itself."""

    def __init__(self, name, command, port, folder, **options):
        self.name, self.port, self.folder = name, port, folder
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
            try:
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            except OSError:  # it ended meanwhile
                continue
            found.append(pid)
            rest += map(int, children)
        return found

    def cpu(self):
        """Seconds of CPU it has used: in user space, in the kernel. Processes of it that have ended count as well."""
        user = system = 0
        for pid in self.pids():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            user += int(fields[11]) + int(fields[13])
            system += int(fields[12]) + int(fields[14])
        return user / TICK, system / TICK

    def memory(self):
        """Bytes of memory it has resident; a page that its processes share counts once."""
        total = 0
        for pid in self.pids():
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        return total * 1024

    def stop(self, patience=5):
        """Ends it: in haste, then by force."""
        below = self.pids() if self.process.poll() is None else []
        for wanted in (signal.SIGINT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(wanted)
                try:
                    self.process.wait(patience)
                except subprocess.TimeoutExpired:
                    pass
        for pid in below[1:]:  # a worker that drains must not stay behind the master
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.output.close()
