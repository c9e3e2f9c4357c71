"""Lines over sizes that grow tenfold: each is named at its end, with its first and last value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.charts.paper import MARGIN, WIDTH, figure, sheet, text

TOP, PLOT, FOOT = 80, 240, 76
LEFT, RIGHT = MARGIN + 32, WIDTH - MARGIN - 180
COLOURS = ("first", "second", "third")
ROUND = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
LABEL = 17
"""Least distance between the names of two lines."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[tuple[int, float]]


def line_chart(title: str, unit: str, lines: Sequence[Line], source: str) -> str:
    sizes = sorted({size for line in lines for size, _ in line.points})
    top = round_up(max(value for line in lines for _, value in line.points))
    body = _grid(sizes, top)
    for line, colour in zip(lines, COLOURS, strict=False):
        body += _line(line, sizes, top, colour)
    body += _names(lines, top)
    return sheet(title, unit, body, source, TOP + PLOT + FOOT)


def _grid(sizes: Sequence[int], top: float) -> list[str]:
    drawn = []
    for part in range(5):
        value = top * part / 4
        height = _y(value, top)
        drawn.append(f'<path class="grid" d="M{LEFT} {height:.1f}H{RIGHT}"/>')
        drawn.append(text(LEFT - 8, height + 4, f"{value:g}", "tick", "end"))
    bottom = TOP + PLOT + 20
    return drawn + [text(_x(size, sizes), bottom, f"{size:,}", "tick", "middle") for size in sizes]


def _line(line: Line, sizes: Sequence[int], top: float, colour: str) -> list[str]:
    places = [(_x(size, sizes), _y(value, top)) for size, value in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places]
    return [f'<polyline class="line {colour}" points="{path}"/>', *dots]


def _names(lines: Sequence[Line], top: float) -> list[str]:
    ends = [_y(line.points[-1][1], top) for line in lines]
    return [
        text(RIGHT + 12, height + 4, _described(line))
        for line, height in zip(lines, apart(ends), strict=True)
    ]


def _described(line: Line) -> str:
    (_, first), (_, last) = line.points[0], line.points[-1]
    return f"{line.name}  {figure(first)} → {figure(last)}"


def apart(heights: Sequence[float]) -> list[float]:
    """The same places, the lower ones moved down until no two names touch."""
    placed = list(heights)
    order = sorted(range(len(placed)), key=placed.__getitem__)
    for above, below in pairwise(order):
        placed[below] = max(placed[below], placed[above] + LABEL)
    return placed


def round_up(value: float) -> float:
    """To a number whose quarters are short, so that the grid's labels are."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * step for step in ROUND if value <= unit * step)


def _x(size: int, sizes: Sequence[int]) -> float:
    if sizes[0] == sizes[-1]:
        return LEFT
    share = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
    return LEFT + share * (RIGHT - LEFT)


def _y(value: float, top: float) -> float:
    return TOP + PLOT * (1 - value / top)
