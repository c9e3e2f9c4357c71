"""Bars that lie: a panel for each store, each on a scale of its own, the value beside each bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.charts.paper import MARGIN, WIDTH, figure, sheet, text

HEADING, PANEL_HEADING, ROW, PANEL_GAP, FOOT = 72, 26, 24, 14, 36
BAR = 16
LABELS, VALUES = 170, 80
"""Room to the left of the bars for who, and to the right for how much."""
SHORTEST = 1.5


@dataclass(frozen=True, slots=True)
class Bar:
    """`role` is holdfast, peer or floor: it decides the colour."""

    name: str
    value: float
    role: str


@dataclass(frozen=True, slots=True)
class Panel:
    name: str
    bars: Sequence[Bar]

    @property
    def height(self) -> float:
        return PANEL_HEADING + ROW * len(self.bars) + PANEL_GAP


def bar_chart(title: str, unit: str, panels: Sequence[Panel], source: str) -> str:
    body: list[str] = []
    top = float(HEADING)
    for panel in panels:
        body += _panel(panel, top)
        top += panel.height
    return sheet(title, unit, body, source, top + FOOT)


def _panel(panel: Panel, top: float) -> list[str]:
    drawn = [text(MARGIN, top + 14, panel.name, "store")]
    longest = max(bar.value for bar in panel.bars)
    for number, bar in enumerate(panel.bars):
        drawn += _row(bar, longest, top + PANEL_HEADING + number * ROW)
    return drawn


def _row(bar: Bar, longest: float, top: float) -> list[str]:
    start = MARGIN + LABELS
    width = bar_width(bar.value, longest)
    kind = bar.role if bar.role == "holdfast" else ""
    box = f'x="{start}" y="{top:.1f}" width="{width:.1f}" height="{BAR}" rx="3"'
    return [
        text(start - 10, top + 12.5, bar.name, kind, "end"),
        f'<rect class="{bar.role}" {box}/>',
        text(start + width + 8, top + 12.5, figure(bar.value), kind),
    ]


def bar_width(value: float, longest: float) -> float:
    """In proportion to the longest, yet never too short to be seen."""
    room = WIDTH - 2 * MARGIN - LABELS - VALUES
    return max(SHORTEST, room * value / longest) if longest > 0 else SHORTEST
