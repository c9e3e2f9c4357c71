"""What a command shows: a readable table for people or one JSON document for programs.

Only the answer goes to standard output. Questions, progress and errors go to standard error, so
that the output of `--json` can be piped. Rich is imported only when something is drawn.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import utcnow
from holdfast.job.json_text import shown_text
from holdfast.job.policy import decode_policy
from holdfast.job.record import Job
from holdfast.job.redaction import redact
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

PIPED_WIDTH = 200
_UNSEEN_IN_JSON = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""What a terminal might obey although JSON allows it in a string as it is."""
TABLE_WIDTH = 110
"""Columns that a terminal needs for a table with many of them."""

STATE_STYLES = {
    JobState.READY: "cyan",
    JobState.RUNNING: "bold blue",
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "bold red",
    JobState.CANCELLED: "magenta",
    JobState.EXPIRED: "magenta",
    JobState.SCHEDULED: "yellow",
    JobState.SUSPENDED: "yellow",
}


class Verbatim(str):
    """Lines in the language of another program: they are not wrapped."""


def harmless(text: str) -> str:
    r"""The text without characters that a terminal would obey. Everything that users wrote goes
    through here before it is printed: names, arguments, results, reasons and errors.

    >>> harmless("a\x1b[2J\r\n\tb")
    'a·[2J\n\tb'
    """
    if text.isprintable():
        return text
    kept = text.replace("\r\n", "\n")
    return "".join(one if one.isprintable() or one in "\n\t" else "·" for one in kept)


def complain(text: str) -> None:
    print(harmless(redact(text)), file=sys.stderr)


def answer(as_json: bool, document: object, draw: Callable[[], Iterable[RenderableType]]) -> None:
    """Print the answer of a command: the document as JSON, or what `draw` draws."""
    if as_json:
        print(_json_text(document))
        return
    console = make_console()
    for part in draw():
        console.print(part, soft_wrap=isinstance(part, Verbatim))


def json_line(document: object) -> str:
    """The document as one line of JSON."""
    return _without_unseen(msgspec.json.encode(document).decode())


def _json_text(document: object) -> str:
    return _without_unseen(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _without_unseen(text: str) -> str:
    """The same JSON, with every character escaped that a terminal might obey."""
    return _UNSEEN_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def make_console(*, stderr: bool = False) -> Console:
    """A console without markup: names and error messages of jobs are never interpreted.

    Output to a pipe gets a fixed width, because there is no terminal whose width could cut it.
    """
    from holdfast.cli.console import HarmlessConsole

    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return HarmlessConsole(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        width=PIPED_WIDTH if piped else None,
    )


def has_room_for_tables() -> bool:
    """Whether tables with many columns are readable here. Elsewhere their rows stand below each
    other: a narrow table would break every word, and lose columns without a sign."""
    return make_console().width >= TABLE_WIDTH


def make_table(*columns: str) -> Table:
    """A table without a frame. A column written `>name` holds numbers and one written `=name` holds
    short words; cells of both are never wrapped."""
    from holdfast.cli.console import LineTable

    return LineTable(*columns)


def make_text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style)


def indented(text: str, style: str = "", *, mark: str = "  ") -> Table:
    """A text under a heading. If it is wrapped, its further lines are indented too."""
    from rich.table import Table

    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, make_text(text, style))
    return grid


def state_text(state: JobState) -> Text:
    return make_text(state, STATE_STYLES.get(state, "dim"))


def duration_text(seconds: float | None) -> str:
    """A duration as people read it.

    >>> [duration_text(s) for s in (None, 0.0123, 5, 90, 7200, 400_000)]
    ['–', '12 ms', '5.0 s', '90 s', '2.0 h', '4.6 d']
    >>> [duration_text(s) for s in (0, 0.000_002, 0.0004)]
    ['0 ms', '<0.1 ms', '0.4 ms']
    """
    if seconds is None:
        return "–"
    if 0 < abs(seconds) < 0.000_05:
        return "<0.1 ms"
    if 0 < abs(seconds) < 0.000_95:
        return f"{seconds * 1000:.1f} ms"
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 120:
        return f"{seconds:.1f} s" if abs(seconds) < 10 else f"{seconds:.0f} s"
    for size, unit in ((86_400, "d"), (3_600, "h")):
        if abs(seconds) >= 2 * size or (unit == "h" and abs(seconds) >= size):
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min"


def ago_text(moment: datetime | None, now: datetime | None = None) -> str:
    if moment is None:
        return "–"
    passed = ((now or utcnow()) - moment).total_seconds()
    return (
        f"in {duration_text(-passed)}" if passed < -0.5 else f"{duration_text(max(0, passed))} ago"
    )


def time_text(moment: datetime | None) -> str:
    """Local time, to compare with logs, and how long ago that was."""
    if moment is None:
        return "–"
    local = local_time(moment).isoformat(sep=" ", timespec="milliseconds")
    return f"{local}  ({ago_text(moment)})"


def local_time(moment: datetime) -> datetime:
    """The moment in local time; in UTC if the local time is past the end of the calendar."""
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment


def job_document(job: Job) -> dict[str, Any]:
    """A job as a document with stable field names. Fields that the store holds as JSON text
    (arguments, result, headers, policy, checkpoint) are JSON here, number for number as stored."""
    document = with_values(job)
    document["headers"] = {} if job.headers_json is None else document["headers"]
    read = job.unreadable is None
    document["policy"] = every_field(decode_policy(job.policy)) if read else shown_text(job.policy)
    document["progress"] = None if job.progress is None else with_values(job.progress)
    return document | {"max_attempts": job.max_attempts}


def most_text(job: Job) -> str:
    """How many attempts the job may have; `?` if its policy cannot be read."""
    if job.unreadable is not None:
        return "?"
    return "∞" if job.max_attempts is None else str(job.max_attempts)


def every_field(record: msgspec.Struct) -> dict[str, Any]:
    """A record as a dictionary of all its fields. Fields at their default are included, although
    the stored record leaves them out."""
    values = {field: getattr(record, field) for field in record.__struct_fields__}
    return {
        field: every_field(value) if isinstance(value, msgspec.Struct) else value
        for field, value in values.items()
    }


def with_values(record: msgspec.Struct) -> dict[str, Any]:
    """A record as a dictionary. A field that holds JSON text is JSON there."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    named = {field: field.removesuffix("_json") for field in fields}
    return {
        name: fields[field] if name == field else shown_text(fields[field])
        for field, name in named.items()
    }
