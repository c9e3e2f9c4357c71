"""A table that fits any width.

It is pure and knows nothing of a terminal. Cells hold words of users and errors of their programs,
so characters that a terminal would obey are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.text import Span, Text

from holdfast.cli.output import harmless


class Column(msgspec.Struct, frozen=True):
    """A column that is at least `least` wide and gets `share` parts of the room that is left."""

    name: str
    least: int
    share: int = 0
    right: bool = False


class Cell(msgspec.Struct, frozen=True):
    text: str
    style: str = ""


class SheetRow(msgspec.Struct, frozen=True):
    """`key` names the thing that the row is about: a queue, a job's id, a worker's id."""

    key: str
    cells: tuple[Cell, ...]


class Sheet(msgspec.Struct, frozen=True):
    """One table. `note` says what it does not show, or how to get more."""

    columns: tuple[Column, ...]
    rows: list[SheetRow]
    note: str = ""

    def widths(self, room: int) -> list[int]:
        """The width of each column in so many characters, with one between two columns."""
        shares = sum(column.share for column in self.columns)
        left = room - sum(column.least + 1 for column in self.columns) + 1
        spare = max(0, left)
        return [
            column.least + (spare * column.share // shares if shares else 0)
            for column in self.columns
        ]

    def head(self, room: int) -> Text:
        """The names of the columns, in one line."""
        return self._line([Cell(column.name, "bold") for column in self.columns], self.widths(room))

    def lines(self, room: int) -> dict[str, Text]:
        """A line for each row, by the key of the row."""
        widths = self.widths(room)
        return {row.key: self._line(row.cells, widths) for row in self.rows}

    def _line(self, cells: Sequence[Cell], widths: Sequence[int]) -> Text:
        """Made at once: to append a cell takes longer than all else about it."""
        words, styled, at = list[str](), list[Span](), 0
        for cell, column, width in zip(cells, self.columns, widths, strict=True):
            words.append(fitted(cell.text, width, right=column.right))
            if cell.style:
                styled.append(Span(at, at + len(words[-1]), cell.style))
            at += len(words[-1]) + 1
        return Text(" ".join(words), no_wrap=True, end="", spans=styled)


def one_line(text: str) -> str:
    """The text in one line, without characters that a terminal would obey."""
    return text if text.isprintable() else harmless(" ".join(text.split()))


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns of a terminal. What is too long ends in `…`.

    >>> fitted("a long name", 6), fitted("7", 3, right=True)
    ('a lon…', '  7')
    """
    plain = one_line(text)
    taken = cell_len(plain)
    if taken > width:
        return set_cell_size(plain, width - 1) + "…"
    spare = " " * (width - taken)
    return spare + plain if right else plain + spare
