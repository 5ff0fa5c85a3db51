"""The second incident: all origins of a pool pause at the same time, and none of them is dead."""

from play import MOORGATE, NGINX, PROBED, Load, Origins, beside, between, binned, failed, statuses


class Pause:
    """Ten origins pause 2.5 s in step."""

    title = "2. Ten origins pause in step"
    rate, objects, before, pause, after = 300, 2000, 6.0, 2.5, 16.0

    def play(self, stage):
        nginx = lambda addresses: stage.nginx(
            "pause-nginx",
            addresses,
            read="1s",
            balance="hash $host$request_uri consistent;",
            fails="max_fails=3 fail_timeout=10s",
        )
        moorgate = lambda addresses: stage.moorgate("pause-moorgate", addresses, read="1s", pool={"health": PROBED})
        runs = {NGINX: self.run(stage, nginx), MOORGATE: self.run(stage, moorgate)}
        columns = {name: self.figures(run) for name, run in runs.items()}
        return {"rows": beside(columns), "chart": self.chart(runs)}

    def run(self, stage, start):
        origins = stage.start(Origins(origins=10, workers=8, service=0.005))
        gateway = start(origins.addresses)
        load = stage.start(Load(gateway.port, self.rate, self.before + self.pause + self.after, self.objects))
        load.until(self.before)
        began, out = origins.tell(pause=self.pause)["at"], []
        look = lambda: out.append(sum(one["state"] in ("down", "kept") for one in gateway.status().values()))
        load.until(self.before + self.pause + self.after, look)
        run = {"rows": stage.taken(load), "began": began, "samples": origins.tell(report=True)["samples"], "out": out}
        stage.clear()
        return run

    def figures(self, run):
        rows, over = run["rows"], run["began"] + self.pause
        since = [row for row in rows if row[0] >= run["began"]]
        late = [row for row in since if row[0] >= over]
        last = max((row[0] - over for row in late if failed(row)), default=0.0)
        serving = self.serving(run)
        return {
            "requests since the pause began": len(since),
            "failed": sum(map(failed, since)),
            "failed how": statuses(since),
            "502": sum(row[2] == 502 for row in since),
            "502 of requests sent after the pause": sum(row[2] == 502 for row in late),
            "failed of those sent after the pause": f"{sum(map(failed, late)) / len(late):.1%}",
            "least origins asked within half a second": min(between(serving, 0.5, self.pause + self.after - 1)),
            "last failure, s after the pause": round(last, 1),
            "tries of requests at origins": round(self.asked(run) / len(since), 3),
        }

    def asked(self, run):
        counts = {sample["at"]: sum(sample["requests"]) for sample in run["samples"]}
        return counts[max(counts)] - max((count for at, count in counts.items() if at <= run["began"]), default=0)

    @staticmethod
    def serving(run):
        """How many origins got a request within half a second."""
        samples, points = run["samples"], []
        for first, last in zip(samples, samples[2:]):
            asked = sum(then < now for then, now in zip(first["requests"], last["requests"]))
            points.append((last["at"] - run["began"], asked))
        return points

    def chart(self, runs):
        inside = lambda points: [(x, y) for x, y in points if -3 <= x <= self.pause + self.after - 0.5]
        drawn = lambda make: {name: inside(make(run)) for name, run in runs.items()}
        fails = lambda run: binned(run["rows"], run["began"], 0.5, lambda rows: 2 * sum(map(failed, rows)))
        panels = [
            ("requests a second that failed, by when they were sent", False, drawn(fails)),
            ("origins that were asked within half a second", False, drawn(self.serving)),
        ]
        return {"panels": panels, "legend": [NGINX, MOORGATE], "marks": [(0, "pause"), (self.pause, "over")]}
