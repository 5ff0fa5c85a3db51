"""What the gateway is meant to cost, and what was measured. Ratios of CPU are medians of those within each round."""

import statistics

US = "Moorgate"


def told(jobs):
    """A line for each goal whose job was run with all it takes."""
    return [found for goal in GOALS if (found := goal(jobs))]


def cpu(name, words, limit, others):
    """CPU for a request, beside the cheapest of these; without names, of all."""

    def told(jobs):
        raw = jobs.get(name, {}).get("raw", {})
        among = others or [other for other in raw if other != US]
        if US not in raw or not among or set(among) - set(raw):
            return None
        ratios = {other: statistics.median(own / its for own, its in zip(raw[US], raw[other])) for other in among}
        beside = max(ratios, key=ratios.get)
        return line(words, f"{limit:g} x", f"{ratios[beside]:.2f} x {beside}", ratios[beside] <= limit)

    return told


def figure(name, words, column, limit, unit):
    """A figure of our own row."""

    def told(jobs):
        for row in jobs.get(name, {}).get("rows", []):
            if row["proxy"] == US:
                return line(words, f"{limit:,} {unit}", f"{row[column]:,} {unit}", row[column] <= limit)
        return None

    return told


def line(words, most, measured, is_reached):
    return {"goal": words, "at most": most, "measured": measured, "reached": "yes" if is_reached else "no"}


STOCK = ["Pingora"]
GOALS = [
    cpu("small", "1 KiB: first bar", 1.6, ["nginx"]),
    cpu("small", "1 KiB: goal", 1.5, ["nginx"]),
    cpu("small", "1 KiB: aim", 1.25, ["nginx"]),
    cpu("small", "1 KiB, beside stock Pingora", 0.85, STOCK),
    cpu("large", "1 MiB, beside the best", 1, []),
    cpu("handshakes", "TLS handshakes", 1, ["nginx"]),
    cpu("h2", "HTTP/2", 1, ["nginx", "Envoy"]),
    figure("reload", "p99 during a reload each second", "x quiet", 1.1, "x without"),
    figure("idle", "10,000 idle connections", "MiB in all", 64, "MiB"),
    figure("idle", "10,000 idle connections: aim", "MiB in all", 40, "MiB"),
    figure("instructions", "instructions for a request", "instructions", 80_000, ""),
]
