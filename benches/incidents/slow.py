"""The third incident: one origin of a pool is slower than the rest."""

from play import PROBED, Load, Origins, binned, failed, quantile


class Slow:
    """Four origins, one at half speed, nearly as many requests as they can do together."""

    title = "3. One slow origin of four"
    rate, objects, service, long, short = 1000, 5000, 1 / 300, 16.0, 8.0

    def play(self, stage):
        balanced = lambda algorithm: {"balance": {"algorithm": algorithm}, "health": PROBED}
        slow = {"health": {**PROBED, "overload": {"slow": "3x"}}}
        bounded = {"balance": {"bounded_load": 1.5}, "health": PROBED}
        contenders = {
            "nginx, round robin": (self.short, lambda to: stage.nginx("slow-rr", to)),
            "nginx, least_conn": (self.short, lambda to: stage.nginx("slow-lc", to, balance="least_conn;")),
            "round_robin": (self.short, lambda to: stage.moorgate("round-robin", to, pool=balanced("round_robin"))),
            "least_in_flight": (self.short, lambda to: stage.moorgate("least", to, pool=balanced("least_in_flight"))),
            "p2c": (self.short, lambda to: stage.moorgate("p2c", to, pool=balanced("p2c"))),
            "peak_ewma": (self.short, lambda to: stage.moorgate("ewma", to, pool=balanced("peak_ewma"))),
            "hash, bounded_load 1.5": (self.short, lambda to: stage.moorgate("hash-bounded", to, pool=bounded)),
            "hash, overload.slow": (self.long, lambda to: stage.moorgate("hash-slow", to, pool=slow)),
        }
        runs = {name: self.run(stage, *contender) for name, contender in contenders.items()}
        return {"rows": [self.figures(name, run) for name, run in runs.items()], "chart": self.chart(runs)}

    def run(self, stage, seconds, start):
        origins = stage.start(Origins(origins=4, workers=1, service=self.service, slow={"3": 2}))
        gateway = start(origins.addresses)
        load = stage.start(Load(gateway.port, self.rate, seconds, self.objects))
        rows = stage.taken(load)
        samples = origins.tell(report=True)["samples"]
        stage.clear()
        return {"rows": rows, "began": load.at, "seconds": seconds, "samples": samples}

    def figures(self, name, run):
        rows, ends = run["rows"], run["began"] + run["seconds"]
        slow = lambda rows: sum(row[1] > 0.2 for row in rows)
        lately = [row for row in rows if row[0] >= ends - 5]
        last = run["samples"][-1]["requests"]
        return {
            "balancer": name,
            "seconds": round(run["seconds"]),
            "requests": len(rows),
            "failed": sum(map(failed, rows)),
            "longest wait, ms": round(max(row[1] for row in rows) * 1000),
            "above 200 ms": slow(rows),
            "of all": f"{slow(rows) / len(rows):.1%}",
            "above 200 ms of the last 5 s": f"{slow(lately) / max(1, len(lately)):.1%}",
            "median, ms": round(quantile([row[1] for row in rows], 0.5) * 1000, 1),
            "of all at the slow one": f"{last[3] / sum(last):.1%}",
        }

    def chart(self, runs):
        longest = lambda rows: max((row[1] * 1000 for row in rows), default=0.0)
        in_time = lambda run: [row for row in run["rows"] if row[0] < run["began"] + run["seconds"]]
        lines = {name: binned(in_time(run), run["began"], 0.5, longest) for name, run in runs.items()}
        return {"panels": [("longest wait of requests sent in half a second, ms", True, lines)], "legend": list(runs)}
