"""Where the database is and how carefully it is written, as its URL says.

sqlite://                      in memory, private to the store object
sqlite:///jobs.db              a file, relative to the working directory
sqlite:////var/lib/jobs.db     a file, absolute
sqlite:///jobs.db?synchronous=FULL&busy_timeout=60
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote

import msgspec

from holdfast.errors import BadOption, StoreError

LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")
_PROMISES = {
    "OFF": "a crash of the process loses nothing; a crash of the machine may corrupt the file",
    "NORMAL": (
        "a crash of the process loses nothing; a power loss may lose the last commits but "
        "never corrupts (synchronous=FULL keeps those too)"
    ),
    "FULL": "an acknowledged write survives a crash of the process and a power loss",
    "EXTRA": "an acknowledged write survives a crash of the process and a power loss",
}


class Location(msgspec.Struct, frozen=True):
    """A parsed URL. For `patience` seconds a write waits for the lock of a busy database."""

    path: Path | None
    synchronous: str = "NORMAL"
    patience: float = 30.0

    @classmethod
    def parse(cls, url: str) -> Location:
        rest = url.partition("://")[2]
        place, _, query = rest.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        synchronous = options.pop("synchronous", "NORMAL").upper()
        patience = _seconds(options.pop("busy_timeout", "30"))
        if options:
            raise BadOption("a sqlite URL's options", "synchronous or busy_timeout", [*options])
        if synchronous not in LEVELS:
            raise BadOption("synchronous", f"one of {', '.join(LEVELS)}", synchronous)
        return cls(_path(place), synchronous, patience)

    @property
    def shown(self) -> str:
        return "sqlite in memory" if self.path is None else str(self.path)

    @property
    def durability(self) -> str:
        if self.path is None:
            return "in memory: everything is gone when the store closes"
        return f"WAL, synchronous={self.synchronous}: {_PROMISES[self.synchronous]}"

    def require_place(self) -> None:
        """Raise with a reason if the path cannot be a file: SQLite would only say "unable to
        open"."""
        if self.path is None:
            return
        if self.path.is_dir():
            raise StoreError(
                f"cannot open {self.path}: it is a folder; name a file, such as "
                f"sqlite:///{self.path / 'jobs.db'}"
            )
        if not self.path.parent.is_dir():
            raise StoreError(
                f"cannot open {self.path}: the folder {self.path.parent} does not exist; create it"
            )


def _path(place: str) -> Path | None:
    if place in ("", "/", "/:memory:", ":memory:"):
        return None
    if not place.startswith("/"):
        raise BadOption("store URL", "sqlite:///file.db, with three slashes", f"sqlite://{place}")
    # Resolved once: a later chdir must not make a sibling open another file.
    return Path(unquote(place[1:])).absolute()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 86_400:
        raise BadOption("busy_timeout", "a number of seconds, 0 or more", text)
    return seconds
