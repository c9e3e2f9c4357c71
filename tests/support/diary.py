"""What the processes of a test did: one file that all of them append to.

A line is written before the next step is taken, so what a killed process had
done is known up to the one thing it was doing. Times are CLOCK_MONOTONIC,
which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that one process did, or that the store answered it.

    `what`: `ready`, `left` (a worker) · `claimed` (`asked` before) · `started`, `returned` (a
    handler) · `finish`, `reclaim`, `progress` (a verdict) · `acknowledged`,
    `error` (an enqueue) · `called`, `recorded` (a step; `text` is its number) ·
    `event` (a warning or worse; `text` is its name).
    """

    what: str
    pid: int
    at: float
    job: str = ""
    fence: int = 0
    attempt: int = 0
    to: str = ""
    accepted: bool = False
    text: str = ""
    asked: float = 0.0


class Diary:
    """The writing side, in each process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, what: str, **facts: object) -> None:
        self.note_all(what, [facts])

    def note_all(self, what: str, many: Sequence[dict[str, object]]) -> None:
        """One write for all, so that lines of several processes never mix."""
        now, pid = time.monotonic(), os.getpid()
        lines = [msgspec.json.encode({"what": what, "pid": pid, "at": now, **f}) for f in many]
        # The line break in front parts us from a line that a killed process left half written.
        os.write(self._file, b"\n" + b"\n".join(lines) + b"\n")


class DiaryReader:
    """The reading side, in the test: each look goes on where the last one ended."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self._rest = b""
        self._entries: list[Entry] = []
        self._decoder = msgspec.json.Decoder(Entry)
        self.torn = 0

    def close(self) -> None:
        self._file.close()

    def entries(self, *whats: str, pid: int | None = None, job: str | None = None) -> list[Entry]:
        """What is written by now, in the order it was written; the arguments narrow it."""
        self._catch_up()
        return [
            entry
            for entry in self._entries
            if (not whats or entry.what in whats)
            and (pid is None or entry.pid == pid)
            and (job is None or entry.job == job)
        ]

    def events(self, name: str) -> list[Entry]:
        return [entry for entry in self.entries("event") if entry.text.startswith(name)]

    def _catch_up(self) -> None:
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        for line in filter(None, lines):
            try:
                self._entries.append(self._decoder.decode(line))
            except msgspec.DecodeError:
                self.torn += 1  # its writer was killed in the middle of it
