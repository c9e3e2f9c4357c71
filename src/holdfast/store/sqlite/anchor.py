"""Whether a path still names the file that a connection has open.

A deleted file lives on for those who have it open: without this look they would go on working,
and what they acknowledge would be lost with the last of them. A look costs a microsecond and is
taken a few times a second at most.
"""

from __future__ import annotations

import time
from pathlib import Path

from holdfast.errors import StoreUnavailable

LOOK_EVERY_SECONDS = 0.2

_File = tuple[int, int]


class Anchor:
    """One for each connection; a database in memory has nothing to lose."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: _File | None = None
        self._log: _File | None = None
        self._looked = 0.0

    def lift(self) -> None:
        """Nothing is known of the file yet."""
        self._file = self._log = None

    def drop(self) -> None:
        """The file at the path is the one that was opened just now, and so is its log."""
        self._file = self._found()
        self._log = None if self._path is None else _file_at(_log_of(self._path))

    def holds(self) -> bool:
        """False once another file is at the path; StoreUnavailable while there is none, because
        a file that was moved away may be moved back."""
        now = time.monotonic()
        if self._file is None or now - self._looked < LOOK_EVERY_SECONDS:
            return True
        if self._found() != self._file:
            self._require_other_log()
            return False
        self._looked = now
        return True

    def require_file(self) -> None:
        """For whoever must not create one."""
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
