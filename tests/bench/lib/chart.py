# SPDX-License-Identifier: BSD-2-Clause
"""Lines over two axes, as SVG."""
import math
from html import escape

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 80, 230, 50, 60  # the legend is on the right
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5a9e", "#c77d0a", "#555555", "#17a2b8", "#7a3b2e", "#a0a000")


def short(value):
    """1000 -> 1k, 0.5 -> 0.5."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


class Axis:
    """Maps a value to a position between 0 and 1, and lists the lines of the grid."""

    def __init__(self, values, log):
        self.log = log
        if log:
            values = [value for value in values if value > 0] or [1]
            self.low = math.floor(math.log10(min(values)) + 1e-9)
            self.high = max(math.ceil(math.log10(max(values)) - 1e-9), self.low + 1)
            self.ticks = [10.0 ** k for k in range(self.low, self.high + 1)]
            return
        top = max([*values, 0]) or 1
        step = 10 ** math.floor(math.log10(top))
        step = next(size for size in (step / 5, step / 2, step, 2 * step) if top / size <= 6)
        self.low, self.high = 0, math.ceil(top / step - 1e-9) * step
        self.ticks = [k * step for k in range(round(self.high / step) + 1)]

    def place(self, value):
        at = math.log10(max(value, 10.0 ** self.low)) if self.log else value
        return (at - self.low) / (self.high - self.low)


def text(x, y, words, anchor="middle", size=13, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {more}>{escape(words)}</text>'


def svg(chart):
    """chart: a Chart of lib/bench.py."""
    points = [point for line in chart.lines.values() for point in line]
    x_axis, y_axis = Axis([p[0] for p in points], chart.x_log), Axis([p[1] for p in points], chart.y_log)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x_at(value):
        return LEFT + x_axis.place(value) * (right - LEFT)

    def y_at(value):
        return bottom - y_axis.place(value) * (bottom - TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#222222">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
           text(LEFT, 28, chart.title, "start", 16, 'font-weight="bold"')]
    for tick in x_axis.ticks:
        out += [f'<path d="M{x_at(tick):.1f} {TOP}V{bottom}" stroke="#dddddd"/>',
                text(x_at(tick), bottom + 20, short(tick))]
    for tick in y_axis.ticks:
        out += [f'<path d="M{LEFT} {y_at(tick):.1f}H{right}" stroke="#dddddd"/>',
                text(LEFT - 8, y_at(tick) + 4, short(tick), "end")]
    out += [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#222222"/>',
            text((LEFT + right) / 2, HEIGHT - 14, chart.x),
            text(20, (TOP + bottom) / 2, chart.y, more=f'transform="rotate(-90 20 {(TOP + bottom) / 2:.1f})"')]
    for i, (label, line) in enumerate(chart.lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="6 4"' if i >= len(COLOURS) else ""
        places = [(x_at(x), y_at(y)) for x, y in sorted(line)]
        out.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}" fill="none" '
                   f'stroke="{colour}" stroke-width="2"{dash}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        key_y = TOP + 10 + 20 * i
        out += [f'<path d="M{right + 16} {key_y}h22" stroke="{colour}" stroke-width="2"{dash}/>',
                f'<circle cx="{right + 27}" cy="{key_y}" r="3.5" fill="{colour}"/>',
                text(right + 44, key_y + 4, label, "start")]
    return "\n".join([*out, "</svg>"]) + "\n"
