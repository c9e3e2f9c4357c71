"""Whether a path still names the file that a connection has open.

A process can go on writing to a file that was deleted, and everything it acknowledges is lost when
it closes the file. So each connection checks a few times a second that the path still leads to its
file. A check costs a microsecond.
"""

from __future__ import annotations

import time
from pathlib import Path

from holdfast.errors import StoreUnavailable

LOOK_EVERY_SECONDS = 0.2

_File = tuple[int, int]


class Anchor:
    """Remembers which file a connection has open. A database in memory has none, and always
    holds."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: _File | None = None
        self._log: _File | None = None
        self._looked = 0.0

    def lift(self) -> None:
        """Forget the file: the next one at the path may be any."""
        self._file = self._log = None

    def drop(self) -> None:
        """Remember the file that is at the path now, and its log: the connection was opened just
        now."""
        self._file = self._found()
        self._log = None if self._path is None else _file_at(_log_of(self._path))

    def holds(self) -> bool:
        """False once another file is at the path. Raises StoreUnavailable while there is no file,
        because a file that was moved away may be moved back."""
        now = time.monotonic()
        if self._file is None or now - self._looked < LOOK_EVERY_SECONDS:
            return True
        if self._found() != self._file:
            self._require_other_log()
            return False
        self._looked = now
        return True

    def require_file(self) -> None:
        """Raise StoreUnavailable if there is no file at the path."""
        self._found()

    def _found(self) -> _File | None:
        if self._path is None:
            return None
        found = _file_at(self._path)
        if found is None:
            raise StoreUnavailable(
                f"{self._path} is gone: it was deleted or moved while in use; put it back, or "
                "restart to begin with a new one"
            )
        return found

    def _require_other_log(self) -> None:
        """SQLite would play the log of the former file into the new one and damage it."""
        if self._path is None or self._log is None:
            return
        log = _log_of(self._path)
        if _file_at(log) == self._log:
            raise StoreUnavailable(
                f"{self._path} was replaced while in use, beside the log of the former file: "
                f"remove {log.name} and {self._path.name}-shm, or put the former file back"
            )


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _file_at(path: Path) -> _File | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
