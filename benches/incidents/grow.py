"""The first incident: a pool of origins with caches grows, and the database behind them has little to spare."""

import time
from statistics import mean

from gateways import owners
from play import HOST, MOORGATE, NGINX, PROBED, Load, Origins
from play import beside, between, binned, failed, quantile, rates, statuses

SAMPLE, LOOK = 0.25, 0.5


class Grow:
    """8 origins become 12, each with a cache, all before one database with 20 % to spare."""

    title = "1. Eight origins become twelve"
    rate, objects, ttl, noise = 400, 1000, 10.0, 1 / 12
    before, after, measured, spare = 10.0, 43.0, 7.0, 1.2

    def play(self, stage):
        nginx = lambda addresses: stage.nginx(
            "grow-nginx",
            addresses,
            read="1s",
            balance="hash $host$request_uri consistent;",
            fails="max_fails=3 fail_timeout=10s",
        )
        pool = {"args": {"drop": ["ts"]}, "health": PROBED, "slow_start": {"window": "15s"}}
        moorgate = lambda addresses: stage.moorgate("grow-moorgate", addresses, read="1s", pool=pool)
        runs = {NGINX: self.run(stage, nginx), MOORGATE: self.run(stage, moorgate)}
        return {"rows": self.table(runs), "chart": self.chart(runs)}

    def run(self, stage, start):
        gap = self.objects / self.rate
        base = self.objects / (self.ttl + gap)
        origins = stage.start(Origins(origins=12, workers=4, service=0.002, ttl=self.ttl, rate=2 * base))
        everybody, eight = origins.addresses, origins.addresses[:8]
        keys = [f"{HOST}/obj/{number}" for number in range(self.objects)]
        homes = [owners(stage.binary, stage.folder, members, keys) for members in (eight, everybody)]
        warm = {name: [f"/obj/{key}" for key, owner in enumerate(homes[0]) if owner == name] for name in eight}
        origins.tell(warm=warm, share=self.ttl / (self.ttl + gap), seed=1)
        gateway = start(eight)
        load = stage.start(Load(gateway.port, self.rate, self.before + self.after, self.objects, self.noise))
        load.until(self.before - self.measured)
        first = origins.tell()
        load.until(self.before)
        now = origins.tell()
        was = (now["queries"] - first["queries"]) / (now["at"] - first["at"])
        change = origins.tell(rate=was * self.spare)["at"]
        wall, held = time.time(), []
        gateway.reload(everybody)
        look = lambda: held.append((time.monotonic() - change, gateway.status()))
        load.until(self.before + self.after - 1, look, LOOK)
        rows = stage.taken(load)
        seen = origins.tell(report=True)
        stage.clear()
        return {
            "rows": rows, "change": change, "wall": wall, "was": was, "homes": homes, "held": held,
            "lines": gateway.lines(), "samples": seen["samples"], "longest": seen["longest"], "old": set(eight),
        }  # fmt: skip

    def table(self, runs):
        parts = (self.requests, self.tries, self.keys, self.database, self.growth)
        column = lambda run: {word: figure for part in parts for word, figure in part(run).items()}
        return beside({name: column(run) for name, run in runs.items()})

    @staticmethod
    def requests(run):
        after = later(run)
        failures = [row for row in after if failed(row)]
        last = max((row[0] - run["change"] for row in failures), default=0.0)
        return {
            "requests after the change": len(after),
            "failed": f"{len(failures)} ({len(failures) / len(after):.1%})",
            "failed how": statuses(after),
            "last failure, s after the change": round(last, 1),
            "99 of 100 waited no longer than, ms": round(quantile([row[1] for row in after], 0.99) * 1000),
        }

    def tries(self, run):
        tries = [len(tried) for ended, *_, tried in run["lines"] if ended >= run["wall"]]
        asked = rates(run["samples"], lambda sample: sum(sample["requests"]), run["change"])
        return {
            "tries of a request that got to an origin": round(mean(filter(None, tries)), 3),
            "most tries for each request, in a second": round(max(between(asked, 0, self.after)) / self.rate, 2),
            **{f"requests tried {number} x": tries.count(number) for number in range(6)},
        }

    def keys(self, run):
        """Where objects and requests were, against where their owners on the two rings are."""
        last = lambda rows: {row[3]: row[4] for row in sorted(rows, key=lambda row: row[0]) if not failed(row)}
        before, finally_ = last([row for row in run["rows"] if row[0] < run["change"]]), last(later(run))
        both = before.keys() & finally_.keys()
        moved = [key for key in both if before[key] != finally_[key]]
        old, new = run["homes"]
        answered = [row for row in later(run) if not failed(row)]
        percent = lambda part, whole: f"{sum(part) / max(1, len(whole)):.1%}"
        return {
            "keys at another origin in the end": percent((1 for _ in moved), both),
            "least possible": percent((old[key] != new[key] for key in both), both),
            "from one old origin to another": percent((finally_[key] in run["old"] for key in moved), both),
            "requests answered by neither old nor new owner": percent(
                (row[4] not in (old[row[3]], new[row[3]]) for row in answered), answered
            ),
            "seconds with two rings": round(self.two_rings(run), 2),
        }

    def database(self, run):
        queries = rates(run["samples"], lambda sample: sample["queries"], run["change"])
        queued = sum(sample["wait"] > 0.1 for sample in run["samples"] if sample["at"] > run["change"])
        hits = self.hit_ratio(run)
        return {
            "database budget, queries/s": round(run["was"] * self.spare),
            "most queries/s, in budgets": round(max(between(queries, 0, self.after)) / run["was"] / self.spare, 2),
            "longest wait for the database, s": round(run["longest"], 2),
            "s in which queries waited above 100 ms": queued * SAMPLE,
            "second-level hit ratio before": f"{mean(between(hits, -self.measured, 0)):.0%}",
            "lowest second-level hit ratio": f"{min(between(hits, 0, self.after)):.0%}",
            "second-level hit ratio of the last 5 s": f"{mean(between(hits, self.after - 5, self.after)):.0%}",
        }

    def growth(self, run):
        words = ("growth held for, s", "of these by the pool as a whole", "all at full share after, s")
        told = [origins.values() for _, origins in run["held"] if origins]
        if not told:
            return dict.fromkeys(words, "at once")
        holds = lambda origin, word: origin["why"].startswith("held") and word in origin["why"]
        held = lambda word: LOOK * sum(any(holds(origin, word) for origin in origins) for origins in told)
        return dict(zip(words, (held(""), held("before the change"), self.grown(run))))

    def grown(self, run):
        """When the last origin had all of its share."""
        grows = lambda origins: any(origin["state"] in ("joining", "ramping") for origin in origins.values())
        last = max((at for at, origins in run["held"] if grows(origins)), default=0.0)
        return round(last, 1) if last < run["held"][-1][0] else f"not within {last:.0f}"

    def hit_ratio(self, run):
        hits = rates(run["samples"], lambda sample: sample["hits"], run["change"], 2.0)
        misses = rates(run["samples"], lambda sample: sample["misses"], run["change"], 2.0)
        return [(x, hit / (hit + missed)) for (x, hit), (_, missed) in zip(hits, misses) if hit + missed > 0]

    @staticmethod
    def two_rings(run):
        """From the first answer placed by the new ring to the last one placed by the old."""
        old = {ring for ended, ring, *_ in run["lines"] if ended < run["wall"]}
        since = [(ended, ring) for ended, ring, *_ in run["lines"] if ended >= run["wall"]]
        first_new = min((ended for ended, ring in since if ring not in old), default=float("inf"))
        last_old = max((ended for ended, ring in since if ring in old), default=0.0)
        return max(0.0, last_old - first_new)

    def chart(self, runs):
        span = (-self.measured, self.after)
        inside = lambda points: [(x, y) for x, y in points if span[0] <= x <= span[1]]
        drawn = lambda make: {name: inside(make(run)) for name, run in runs.items()}
        asked = lambda run: rates(run["samples"], lambda one: one["queries"], run["change"])
        queries = lambda run: [(x, y / run["was"]) for x, y in asked(run)]
        hits = lambda run: [(x, 100 * y) for x, y in self.hit_ratio(run)]
        new = lambda run: share(run["samples"], run["change"], lambda requests: sum(requests[8:]))
        fails = lambda run: binned(run["rows"], run["change"], 1.0, lambda rows: sum(map(failed, rows)))
        budget = {"budget": [(span[0], self.spare), (span[1], self.spare)]}
        panels = [
            ("database queries, 1 is what they were before the change", False, {**drawn(queries), **budget}),
            ("requests a second that failed", False, drawn(fails)),
            ("second-level hit ratio, %", False, drawn(hits)),
            ("part of the origins' requests at the four new ones, %", False, drawn(new)),
        ]
        return {"panels": panels, "legend": [NGINX, MOORGATE], "marks": [(0, "12 origins")]}


def later(run):
    """Requests sent after the change."""
    return [row for row in run["rows"] if row[0] >= run["change"]]


def share(samples, began, of):
    """Points of (second, percent of the origins' requests that are of these)."""
    every, these = (rates(samples, lambda one: wanted(one["requests"]), began) for wanted in (sum, of))
    return [(x, 100 * part / whole) for (x, whole), (_, part) in zip(every, these) if whole > 0]
