"""What bars and lines are drawn on: size, type, colours for light and dark, text that is safe."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH = 760
MARGIN = 24

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
         fill: #1f2937; }
  .title { font-size: 17px; font-weight: 600; }
  .unit, .source, .tick { fill: #6b7280; font-size: 12px; }
  .store { font-weight: 600; font-size: 14px; }
  .paper { fill: #ffffff; stroke: #e5e7eb; }
  .grid { stroke: #e5e7eb; }
  .holdfast { fill: #0f766e; } .peer { fill: #94a3b8; } .floor { fill: #dbe3ec; }
  text.holdfast { font-weight: 600; fill: #0f766e; }
  .line { fill: none; stroke-width: 2.5; }
  .first { stroke: #0f766e; } .second { stroke: #c2410c; } .third { stroke: #4f46e5; }
  .dot { stroke: none; }
  .dot.first { fill: #0f766e; } .dot.second { fill: #c2410c; } .dot.third { fill: #4f46e5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb; }
    .unit, .source, .tick { fill: #9ca3af; }
    .paper { fill: #0d1117; stroke: #30363d; }
    .grid { stroke: #30363d; }
    .holdfast { fill: #2dd4bf; } .peer { fill: #64748b; } .floor { fill: #334155; }
    text.holdfast { fill: #2dd4bf; }
    .first { stroke: #2dd4bf; } .second { stroke: #fb923c; } .third { stroke: #a5b4fc; }
    .dot.first { fill: #2dd4bf; } .dot.second { fill: #fb923c; } .dot.third { fill: #a5b4fc; }
  }
"""


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> str:
    attributes = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {attributes}>{escape(said)}</text>"


def sheet(title: str, unit: str, body: Sequence[str], source: str, height: float) -> str:
    """The whole drawing: a heading, what was drawn, and where the figures come from."""
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    edge = f'x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="8"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" {edge}/>',
            text(MARGIN, 34, title, "title"),
            text(MARGIN, 54, unit, "unit"),
            *body,
            text(MARGIN, height - 16, source, "source"),
            "</svg>\n",
        )
    )


def figure(value: float) -> str:
    """As many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
