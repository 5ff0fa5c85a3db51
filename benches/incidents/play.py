"""What every incident is played with: gateways, origins and load, and what was seen, laid out over time."""

import json
import subprocess
import sys
import time
from pathlib import Path

from gateways import Moorgate, Nginx

HERE = Path(__file__).parent
HOST = "img.example.com"
NGINX, MOORGATE = "nginx", "Moorgate"
PROBED = {"probe": {"http": {"path": "/healthz"}}}


class Stage:
    """What is running, to be stopped whatever happens."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.running, self.late = binary, folder, [], 0.0

    def start(self, made):
        self.running.append(made)
        return made

    def nginx(self, name, addresses, **options):
        return self.start(Nginx(self.folder / name, addresses, **options))

    def moorgate(self, name, addresses, **options):
        return self.start(Moorgate(self.binary, self.folder / name, addresses, **options))

    def taken(self, load):
        """All requests of a run; those that never got an answer failed."""
        said = load.take()
        self.late = max(self.late, said["late"])
        return said["rows"] + [[load.at + load.seconds, 30.0, 0, -1, None]] * said["unanswered"]

    def clear(self):
        while self.running:
            self.running.pop().stop()


class Origins:
    """The process that is all origins."""

    def __init__(self, **model):
        command = [sys.executable, str(HERE / "origins.py"), json.dumps(model)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addresses = json.loads(self.process.stdout.readline())

    def tell(self, **command):
        """Has them do something; answers what they answer."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        ended(self.process)


class Load:
    """The process that asks; it begins in a moment."""

    def __init__(self, port, rate, seconds, objects, noise=0.0, seed=1):
        self.at, self.seconds = time.monotonic() + 0.7, seconds
        plan = {"port": port, "at": self.at, "rate": rate, "seconds": seconds, "objects": objects}
        command = [sys.executable, str(HERE / "load.py"), json.dumps({**plan, "noise": noise, "seed": seed})]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def until(self, second, meanwhile=None, every=0.5):
        """Waits for this second of the run; `meanwhile` is called again and again."""
        while (left := self.at + second - time.monotonic()) > 0:
            time.sleep(min(left, every))
            if meanwhile and left > every:
                meanwhile()

    def take(self):
        """Waits for the last answers: what became of all requests."""
        said, _ = self.process.communicate(timeout=self.seconds + 60)
        return json.loads(said)

    def stop(self):
        ended(self.process)


def ended(process, patience=5):
    """Sees a process end, by force if it has to be."""
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def rates(samples, of, began, window=1.0):
    """How fast a counter of the origins rose: points of (second, a second), each over the window before it."""
    points, first = [], 0
    for sample in samples:
        while samples[first]["at"] < sample["at"] - window:
            first += 1
        passed = sample["at"] - samples[first]["at"]
        if passed > window / 2:
            points.append((sample["at"] - began, (of(sample) - of(samples[first])) / passed))
    return points


def binned(rows, began, width, of):
    """Requests by when they were sent: points of (second, what `of` makes of the requests of that time)."""
    bins = {}
    for row in rows:
        bins.setdefault(int((row[0] - began) // width), []).append(row)
    return [((number + 1) * width, of(bins.get(number, []))) for number in range(min(bins), max(bins) + 1)]


def between(points, first, last):
    """Values of the points of this time."""
    return [y for x, y in points if first <= x <= last]


def quantile(values, part):
    """The value that this part is not above."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * part))] if ranked else 0.0


def failed(row):
    """Was this request not answered with 200?"""
    return row[2] != 200


def statuses(rows):
    """How requests failed, in words."""
    counts = {}
    for row in filter(failed, rows):
        word = str(row[2]) if row[2] else "no answer"
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} x {word}" for word, count in sorted(counts.items())) or "none"


def beside(columns):
    """Figures of several as rows of a table, one column for each."""
    words = next(iter(columns.values()))
    return [{"": word, **{name: figures[word] for name, figures in columns.items()}} for word in words]
