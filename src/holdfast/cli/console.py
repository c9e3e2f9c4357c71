"""The console of every command, and its tables. It is imported only when something is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from holdfast.cli.output import harmless


class HarmlessConsole(Console):
    """Prints no character of a text that a terminal would obey. Colours are added after this."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Before the width of the text is measured."""
        return super().render_str(harmless(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Whatever a text came in: nothing is printed that does not go through here."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)


class LineTable(Table):
    """A table without a frame, written line by line if each cell has room in one line. Rich treats
    each cell as a document of its own: 3,000 rows of seven cells take it more than a second."""

    def __init__(self, *columns: str) -> None:
        """A column written `>name` holds numbers and one written `=name` holds short words; cells
        of both are never wrapped."""
        super().__init__(
            box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold"
        )
        for name in columns:
            self.add_column(
                name.lstrip(">="),
                justify="right" if name.startswith(">") else "left",
                no_wrap=name.startswith((">", "=")),
                overflow="fold",
            )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [_Line.of(column.header, console, "bold") for column in self.columns]
        columns = [[_Line.of(cell, console) for cell in one.cells] for one in self.columns]
        widths = _widths([[head, *cells] for head, cells in zip(heads, columns, strict=True)])
        if widths is None or sum(widths) + len(widths) - 1 > options.max_width:
            yield from super().__rich_console__(console, options)
            return
        yield from self._written(heads, widths)
        ruled = box.SIMPLE_HEAD.substitute(options, safe=console.safe_box)
        yield Segment(ruled.get_row(widths, "head", edge=False) + "\n")
        for row in zip(*columns, strict=True):
            yield from self._written(row, widths)

    def _written(self, row: Sequence[_Line | None], widths: list[int]) -> Iterator[Segment]:
        plain = ""
        for line, width, column in zip(row, widths, self.columns, strict=True):
            assert line is not None, "a table with other cells is Rich's"
            room = " " * (width - 1 - line.width)
            before, behind = (room, " ") if column.justify == "right" else ("", f"{room} ")
            if line.style is None:
                plain += f"{before}{line.text}{behind} "
            else:
                yield Segment(plain + before)
                yield Segment(line.text, line.style)
                plain = f"{behind} "
        yield Segment(plain[:-1] + "\n")


class _Line(NamedTuple):
    """What stands in a cell, if that is a text of one line in one style."""

    text: str
    width: int
    style: Style | None

    @classmethod
    def of(cls, cell: RenderableType, console: Console, style: str = "") -> _Line | None:
        if isinstance(cell, Text) and not cell.spans:
            text, style = cell.plain, str(cell.style)
        elif isinstance(cell, str):
            text = cell
        else:
            return None
        if not text.isprintable() or text.endswith(" "):
            return None
        return cls(text, cell_len(text), console.get_style(style) if style else None)


def _widths(columns: list[list[_Line | None]]) -> list[int] | None:
    """How wide the columns are, with a space behind each cell; None if a cell is no line."""
    found = [[one.width for one in cells if one is not None] for cells in columns]
    whole = all(len(some) == len(cells) for some, cells in zip(found, columns, strict=True))
    return [max(some) + 1 for some in found] if whole else None
