"""Tables of commands: written line by line they look as Rich would draw them."""

from __future__ import annotations

import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from holdfast.cli.console import HarmlessConsole, LineTable
from holdfast.cli.output import make_table

COLUMNS = ("=name", ">number", "note", "")
texts = st.text(alphabet=st.sampled_from("abc 漢é-\t\n\x1b."), max_size=12)
styles = st.sampled_from(["", "red", "bold green", "dim"])
cells = st.one_of(texts, st.builds(Text, texts, styles), st.builds(Text.assemble, texts, texts))
rows = st.lists(st.tuples(cells, cells, cells, cells), max_size=6)


def console(width: int) -> HarmlessConsole:
    return HarmlessConsole(
        file=io.StringIO(), markup=False, highlight=False, emoji=False, width=width
    )


def seen(segments: list[Segment]) -> list[tuple[str, str]]:
    """Each character that can be seen, with its style."""
    return [
        ("\n" if one == "\n" else one, "" if one.isspace() else str(segment.style or ""))
        for segment in segments
        for one in segment.text
    ]


def filled(some: list[tuple[str | Text, ...]]) -> LineTable:
    table = LineTable(*COLUMNS)
    for row in some:
        table.add_row(*row)
    return table


@given(rows, st.sampled_from([20, 40, 200]))
def test_a_table_looks_as_rich_draws_it(some: list[tuple[str | Text, ...]], width: int) -> None:
    on = console(width)
    ours = list(on.render(filled(some)))
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(LineTable, "__rich_console__", Table.__rich_console__)
        theirs = list(on.render(filled(some)))
    assert "".join(one.text for one in ours) == "".join(one.text for one in theirs)
    assert [(c, s.replace("none", "")) for c, s in seen(ours)] == [
        (c, s.replace("none", "")) for c, s in seen(theirs)
    ]


def test_a_table_of_3_000_rows_takes_a_fraction_of_a_second() -> None:
    table = make_table("=queue", ">ready", ">running", ">scheduled", ">suspended", ">lag", "")
    for number in range(3_000):
        row = (f"queue-{number:04}", "1,234", "56", "0", "0", "12 ms")
        table.add_row(*row, Text("no live worker", "red"))
    on = console(200)
    began = time.process_time()
    on.print(table)
    assert time.process_time() - began < 0.5
