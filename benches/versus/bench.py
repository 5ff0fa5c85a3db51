"""Where everything runs: contenders are started in folders of their own, asked in turn, and stopped."""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import contenders
from origins import Origins
from peers import Ports, Task


class Bench:
    """The contenders, their origins, and what went wrong."""

    def __init__(self, everybody, folder, rounds, seconds, files):
        self.everybody, self.folder, self.rounds, self.seconds, self.files = everybody, folder, rounds, seconds, files
        self.certificate, self.key = certificate(folder)
        self.origins = Origins(folder, files)
        self.started, self.problems = [self.origins.running], {}
        self.began, self.job = time.monotonic(), ""

    def task(self, addresses, **other):
        """What a contender is told."""
        return Task(addresses, str(self.certificate), str(self.key), files=self.files, **other)

    def start(self, peer, task, wrapped=()):
        """Starts a contender in a folder of its own."""
        folder, ports = Path(tempfile.mkdtemp(dir=self.folder)), Ports()
        peer.configure(folder, task, ports)
        command = [*wrapped, *peer.command(folder, task, ports)]
        running = contenders.Running(re.sub(r"\W+", "-", peer.name), command, ports.plain, folder)
        running.label = peer.name
        self.started.append(running)
        return running, ports

    def start_all(self, everybody, task):
        """All at once, by name; who does not start is left out, and told."""
        running = {}
        for peer in everybody:
            try:
                running[peer.name] = self.start(peer, task)
            except RuntimeError as problem:
                self.failed(peer.name, problem)
        return running

    def each(self, running, ask, first=0):
        """Asks one after the other, from this one on; who fails is stopped and left out from then on, and told."""
        found, order = {}, list(running.items())
        first %= len(order) or 1
        for name, (one, ports) in order[first:] + order[:first]:
            try:
                found[name] = ask(one, ports)
            except (RuntimeError, OSError, ZeroDivisionError, subprocess.SubprocessError) as problem:
                self.failed(name, problem)
                one.stop()
                del running[name]
        return found

    @staticmethod
    def stop_all(running):
        for one, _ in running.values():
            one.stop()

    def failed(self, name, problem):
        self.problems.setdefault(self.job, {})[name] = str(problem)[:300]
        self.progress(f"{name} is out: {str(problem)[:2000]}")

    def progress(self, words):
        """Where it is, and since when it runs."""
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"[{minutes:2}:{seconds:02}] {self.job}: {words}", file=sys.stderr, flush=True)

    def end(self):
        """Stops whatever still runs."""
        for running in reversed(self.started):
            running.stop()


def certificate(folder):
    """One of P-256, for all."""
    files = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    names = "subjectAltName=DNS:localhost,DNS:img.example.com,IP:127.0.0.1"
    command += ["-subj", "/CN=img.example.com", "-addext", names, "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True)
    return files
