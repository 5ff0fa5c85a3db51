"""Bars as SVG, written by hand: a panel for each job, two beside one another, the same in light and in dark."""

from html import escape

WIDTH, LEFT, BAR, HEAD, GAP = 860, 110, 16, 30, 14
PANEL = WIDTH / 2
COLOURS = {"Moorgate": "#d1495b", "nginx": "#4f9d5d"}
OTHER = "#2a7f9e"
FONT = 'font-family="system-ui, sans-serif"'


def write(path, panels):
    """Each panel is `(title, [(name, value, ratio)])`."""
    tall = [HEAD + BAR * len(bars) + GAP for _, bars in panels]
    rows = [max(tall[at : at + 2]) for at in range(0, len(tall), 2)]
    drawn, height = [], 28 + sum(rows)
    for number, panel in enumerate(panels):
        drawn += draw(panel, number % 2 * PANEL, 28 + sum(rows[: number // 2]))
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {FONT}>',
        "<title>CPU of the proxy for a request</title>",
        "<style>text{fill:#57606a;font-size:11px}.title{font-size:12px;font-weight:600}</style>",
        '<text x="8" y="18" style="font-size:15px;font-weight:600">'
        "CPU of the proxy for a request, µs, and beside nginx</text>",
    ]
    path.write_text("\n".join([*head, *drawn, "</svg>", ""]))


def draw(panel, left, top):
    """A title, and a bar for each contender."""
    title, bars = panel
    most = max(value for _, value, _ in bars) or 1
    room = PANEL - LEFT - 110
    drawn = [f'<text class="title" x="{left + 8:.0f}" y="{top + 20}">{escape(title)}</text>']
    for number, (name, value, ratio) in enumerate(bars):
        at, wide = top + HEAD + number * BAR, max(1, value / most * room)
        colour = COLOURS.get(name, OTHER)
        drawn.append(f'<text x="{left + LEFT - 6:.0f}" y="{at + 9}" text-anchor="end">{escape(name)}</text>')
        drawn.append(f'<rect x="{left + LEFT:.0f}" y="{at}" width="{wide:.1f}" height="{BAR - 5}" rx="2" fill="{colour}"/>')
        said = f"{value:g} ({ratio:g} x)" if ratio else f"{value:g}"
        drawn.append(f'<text x="{left + LEFT + wide + 5:.1f}" y="{at + 9}">{said}</text>')
    return drawn
