"""Charts as SVG, written by hand: panels of lines over one axis of seconds, the same in light and in dark."""

import math
from html import escape

WIDTH, LEFT, RIGHT, PANEL, GAP, ROW = 860, 70, 20, 170, 44, 18
COLOURS = ["#d1495b", "#2a7f9e", "#e0962f", "#4f9d5d", "#8b6bb8", "#8a8a8a", "#b5527f", "#34528a"]
FONT = 'font-family="system-ui, sans-serif"'


def chart(path, title, panels, legend, marks=()):
    """Writes a file: each panel is `(heading, is logarithmic, {name: points})`, a mark is `(second, word)`.

    `legend` names the lines in the order of their colours; a name that is not in it is drawn dashed and grey.
    """
    named = names(legend)
    below = named.pop()
    height = below + len(panels) * (PANEL + GAP)
    times = [x for _, _, lines in panels for points in lines.values() for x, _ in points]
    across = Scale(min(times), max(times), LEFT, WIDTH - RIGHT)
    drawn = opened(title, height, named)
    for number, panel in enumerate(panels):
        top = below + GAP / 2 + number * (PANEL + GAP)
        drawn += draw(panel, top, across, legend)
        dashed = 'class="grid" stroke-dasharray="4 3"'
        drawn += [line(across(at), top, across(at), top + PANEL, dashed) for at, _ in marks]
        if number == 0:
            drawn += [text(across(at) + 4, top + 12, word) for at, word in marks]
    path.write_text("\n".join([*drawn, "</svg>", ""]))


def opened(title, height, named):
    """What a chart begins with: its size, its title, and who is who."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {FONT}>',
        f"<title>{escape(title)}</title>",
        "<style>text{fill:#57606a;font-size:12px}.grid{stroke:#57606a;stroke-opacity:.25}</style>",
        f'<text x="{LEFT}" y="20" style="font-size:15px;font-weight:600">{escape(title)}</text>',
        *named,
    ]


class Scale:
    """Values to pixels."""

    def __init__(self, least, most, first, last, logarithmic=False):
        self.turn = (lambda value: math.log10(max(value, least))) if logarithmic else float
        self.least, self.most = self.turn(least), self.turn(most) if most > least else self.turn(least) + 1
        self.first, self.last = first, last

    def __call__(self, value):
        return self.first + (self.turn(value) - self.least) / (self.most - self.least) * (self.last - self.first)


def names(legend):
    """The legend, in as many rows as it takes, and where it ends."""
    drawn, at, row = [], LEFT, 40
    for number, name in enumerate(legend):
        wide = 40 + 6.6 * len(name)
        if at + wide > WIDTH - RIGHT:
            at, row = LEFT, row + ROW
        drawn.append(line(at, row, at + 18, row, f'stroke="{COLOURS[number]}" stroke-width="3"'))
        drawn.append(text(at + 23, row + 4, name))
        at += wide
    return [*drawn, row + ROW]


def draw(panel, top, across, legend):
    """A panel: heading, grid, lines."""
    heading, logarithmic, lines = panel
    most = max((y for points in lines.values() for _, y in points), default=0)
    steps = decades(most) if logarithmic else steps_to(most)
    up = Scale(steps[0], steps[-1], top + PANEL, top, logarithmic)
    drawn = [text(LEFT, top - 7, heading)]
    for step in steps:
        drawn += [line(LEFT, up(step), WIDTH - RIGHT, up(step), 'class="grid"')]
        drawn += [text(LEFT - 6, up(step) + 4, f"{step:g}", "end")]
    size = steps_to(across.most - across.least)[1]
    for number in range(math.ceil(across.least / size), math.floor(across.most / size) + 1):
        drawn += [text(across(number * size), top + PANEL + 15, f"{number * size:g} s", "middle")]
    for name, points in lines.items():
        known = name in legend
        colour = COLOURS[legend.index(name)] if known else "#57606a"
        dash = "" if known else ' stroke-dasharray="6 4"'
        for part in parts(points):
            placed = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in part)
            drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.8"{dash} points="{placed}"/>')
        if not known and points:
            drawn.append(text(across(points[-1][0]) - 4, up(points[-1][1]) - 5, name, "end"))
    return drawn


def parts(points):
    """A line, cut where nothing was seen for a while."""
    longest = 5 * min((later[0] - one[0] for one, later in zip(points, points[1:])), default=1)
    found = [[]]
    for point in points:
        if found[-1] and point[0] - found[-1][-1][0] > longest:
            found.append([])
        found[-1].append(point)
    return found


def steps_to(most):
    """Round numbers from 0 to at least this."""
    raw = max(most, 1e-9) / 5
    size = 10 ** math.floor(math.log10(raw))
    size *= next(factor for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw)
    return [round(number * size, 6) for number in range(math.ceil(max(most, 1e-9) / size - 1e-9) + 1)]


def decades(most):
    """Powers of ten from 1 to at least this."""
    return [10**power for power in range(math.ceil(math.log10(max(most, 10))) + 1)]


def line(x1, y1, x2, y2, how):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {how}/>'


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
