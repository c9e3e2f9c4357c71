"""Handlers leave a mark that another process can read while they run.

A worker's handlers write (job number, moment) into a file mapped in memory,
which costs a fraction of a microsecond: the measuring must not be what is
measured. The monotonic clock is one for all processes of a machine. One file
serves one worker process.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RECORD = struct.Struct("<qd")
COUNT = struct.Struct("<q")


class Ticks:
    """A mapped file: how many marks there are, then the marks."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._at = COUNT.size

    def mark(self, number: int) -> None:
        """The handler of job `number` runs now."""
        RECORD.pack_into(self._map, self._at, number, time.monotonic())
        self._at += RECORD.size
        COUNT.pack_into(self._map, 0, (self._at - COUNT.size) // RECORD.size)

    def count(self) -> int:
        return int(COUNT.unpack_from(self._map)[0])

    def read(self) -> list[tuple[int, float]]:
        written = self._map[COUNT.size : COUNT.size + self.count() * RECORD.size]
        return list(RECORD.iter_unpack(written))

    def close(self) -> None:
        self._map.close()


@contextmanager
def new_ticks(capacity: int) -> Iterator[tuple[Path, Ticks]]:
    """A file with room for `capacity` marks, gone when the block ends."""
    with tempfile.NamedTemporaryFile(prefix="holdfast-ticks-") as file:
        file.truncate(COUNT.size + capacity * RECORD.size)
        ticks = Ticks(Path(file.name))
        try:
            yield Path(file.name), ticks
        finally:
            ticks.close()
