"""`holdfast jobs stream`: the frames of a stream as they come; and what `show` says of streams."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.output import complain, harmless, json_line
from holdfast.cli.program import jobs_group
from holdfast.cli.target import CommandSession
from holdfast.job.record import Job
from holdfast.job.redaction import Redactor
from holdfast.job.stream import Frame, StreamPart
from holdfast.job.text import counted
from holdfast.job.ties import Tie

if TYPE_CHECKING:
    from holdfast.client.client import Client


@jobs_group.command("stream")
@click.argument("job_id", metavar="ID")
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Wait for more until the stream is over.")
@click.option("--after", metavar="CURSOR", help="Go on behind this frame.")
async def show_stream(
    session: CommandSession, job_id: str, name: str, follow: bool, after: str | None
) -> None:
    """Show the frames of a stream that a job writes. Texts are printed one behind the other, other
    frames as lines of JSON. With --json each frame is a line with its cursor."""
    async with session.client() as client:
        redactor = await client.shown.redactor_of(await client.get(job_id))
        printer = _Printer(redactor, as_json=session.as_json)
        async for frame in client.streams.follow(job_id, name, after=after, follow=follow):
            printer.show(frame)
        printer.end()
        if not printer.has_shown:
            await _tell_names(client, job_id, name)


async def _tell_names(client: Client, job_id: str, name: str) -> None:
    """A stream without frames may be one that was misspelt."""
    names = dict.fromkeys(part.stream for part in await client.streams.of(job_id))
    if name not in names:
        known = ", ".join(map(repr, names)) or "none"
        complain(f"job {job_id} has nothing in a stream {name!r}; its streams: {known}")


class _Printer:
    def __init__(self, redactor: Redactor, *, as_json: bool) -> None:
        self._redactor = redactor
        self._as_json = as_json
        self._in_line = False
        self.has_shown = False

    def show(self, frame: Frame) -> None:
        self.has_shown = True
        shown = self._redactor.json(msgspec.json.encode(frame.data).decode())
        data = msgspec.json.decode(shown)
        if self._as_json:
            print(json_line(msgspec.structs.replace(frame, data=data)), flush=True)
            return
        if frame.restarted or frame.missed:
            self.end()
            complain(_note(frame))
        if isinstance(data, str):
            self._write(data)
        else:
            self.end()
            self._write(f"{json_line(data)}\n")

    def end(self) -> None:
        """Let the next thing begin on a line of its own."""
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(harmless(text))
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")


def _note(frame: Frame) -> str:
    if frame.restarted:
        what = f"step {frame.section!r}" if frame.section else "the handler"
        return f"[{what} has begun again: what it wrote before is void]"
    return f"[{counted(frame.missed, 'frame')} before this one are no longer kept]"


async def streams_of(client: Client, job: Job) -> list[StreamPart]:
    """The streams of a job; a job without ties is not asked for them."""
    return await client.streams.of(job.id) if job.ties & Tie.STEPS else []


def stream_lines(parts: Sequence[StreamPart]) -> list[tuple[str, str]]:
    """Each stream, and what of it is kept."""
    return [(name, _told(list(some))) for name, some in groupby(parts, key=lambda one: one.stream)]


def stream_documents(parts: Sequence[StreamPart]) -> list[Any]:
    return [msgspec.to_builtins(part) for part in parts]


def _told(parts: Sequence[StreamPart]) -> str:
    number, size = sum(part.number for part in parts), sum(part.size for part in parts)
    closed = ", closed" if any(part.closed for part in parts) else ""
    return f"{counted(number, 'frame')}, {size:,} bytes, keeps {parts[0].keep.value}{closed}"
