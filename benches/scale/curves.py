"""Curves as SVG: what a request costs, what a reload takes and what is held, over sizes a decade apart."""

import math

from charts import COLOURS, GAP, LEFT, PANEL, RIGHT, WIDTH, Scale, line, names, opened, steps_to, text

PANELS = [
    ("1,000 instructions for a request", "instructions", 1000),
    ("µs of CPU for a request", "CPU µs", 1),
    ("ms that 99 of 100 answers took at most", "p99 ms", 1),
    ("the same while configurations are changed", "p99 reloading", 1),
    ("ms for a reload", "reload s", 0.001),
    ("MiB held", "MiB", 1),
]
TITLE = "Cost against size"


def draw(path, found):
    """Writes a file: a panel for each figure, a curve for each series that has it."""
    found = {name: series for name, series in found.items() if series["rows"]}
    legend = [next(iter(series["rows"][0])) for series in found.values()]
    sizes = [size for series in found.values() for size in places(series)]
    across = Scale(min(sizes), max(sizes), LEFT, WIDTH - RIGHT, logarithmic=True)
    *named, below = names(legend)
    drawn = opened(TITLE, below + len(PANELS) * (PANEL + GAP), named)
    for number, panel in enumerate(PANELS):
        drawn += panel_of(panel, below + GAP / 2 + number * (PANEL + GAP), across, found, legend)
    path.write_text("\n".join([*drawn, "</svg>", ""]))


def places(series):
    return [next(iter(row.values())) for row in series["rows"]]


def panel_of(panel, top, across, found, legend):
    """Heading, grid and curves of one figure."""
    heading, what, unit = panel
    curves = {
        next(iter(series["rows"][0])): [(next(iter(row.values())), row[what] / unit) for row in series["rows"]]
        for series in found.values()
        if what in series["rows"][0]
    }
    steps = steps_to(max((y for points in curves.values() for _, y in points), default=0))
    up = Scale(steps[0], steps[-1], top + PANEL, top)
    drawn = [text(LEFT, top - 7, heading)]
    for step in steps:
        drawn += [line(LEFT, up(step), WIDTH - RIGHT, up(step), 'class="grid"'), text(LEFT - 6, up(step) + 4, f"{step:g}", "end")]
    last = math.floor(across.most)
    for power in range(round(across.least), last + 1):
        anchor = "middle" if power < last else "end"
        drawn.append(text(across(10**power), top + PANEL + 15, f"{10**power:,}", anchor))
    for name, points in curves.items():
        placed = [(across(x), up(y)) for x, y in points]
        colour = COLOURS[legend.index(name)]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{joined}"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
    return drawn
