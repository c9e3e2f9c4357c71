"""The words of limits. Stores keep a definition as one JSON text (`to_json`)."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.passing import Passing, bucket_name, split_bucket


class Concurrency(msgspec.Struct, frozen=True, tag="concurrency", tag_field="kind"):
    """At most `most` jobs run at once, in all workers together. 0 lets none begin."""

    most: int

    def __post_init__(self) -> None:
        checks.count("Concurrency(most)", self.most, least=0)


Settings = Concurrency

KINDS: dict[str, type[Settings]] = {"concurrency": Concurrency}


def kind_of(settings: Settings) -> str:
    return next(name for name, kind in KINDS.items() if isinstance(settings, kind))


def to_json(settings: Settings) -> str:
    return msgspec.json.encode(settings).decode()


@lru_cache(maxsize=1024)
def from_json(text: str) -> Settings:
    return msgspec.json.decode(text, type=Settings)


class Limit(Passing, frozen=True, kw_only=True):
    """A limit as `app.limit` declares it. By itself, all jobs that name it share one bucket."""

    settings: Settings

    def by(self, key: str) -> Passing:
        """One bucket for each value of an argument, or of a template of arguments such as
        `"{org}/{team}"`."""
        checks.text(f"key of limit {self.limit!r}", key, 200)
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(key)]
        except ValueError as error:
            raise BadOption(f"key of limit {self.limit!r}", str(error), key) from None
        if "{" in key and not all(name is None or name.isidentifier() for name in names):
            expected = "names of arguments in braces, such as '{org}/{team}'"
            raise BadOption(f"key of limit {self.limit!r}", expected, key)
        return Passing(self.limit, key)


def declared(name: str, settings: object) -> Limit:
    bucket_name(name)
    if not isinstance(settings, Settings):
        raise BadOption(f"limit {name!r}", "a Concurrency", settings)
    return Limit(name, settings=settings)


class LimitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A limit as the store has it. `edited`: an operator has changed it, so that declarations
    no longer do. A retired limit holds nothing up. `buckets`: how many have a row."""

    name: str
    settings: Settings
    edited: bool = False
    retired: bool = False
    revision: int = 1
    buckets: int = 0


class BucketInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One bucket. `settings` are those that count for it, None where the limit is not defined.
    `waiting`: how many lines are parked at it. `drained_for`: seconds until a throttle is over.
    `opens_in`: seconds until time opens it, None where only an end or an operator does, and 0
    where it has room."""

    name: str
    settings: Settings | None
    override: Settings | None = None
    retired: bool = False
    in_use: int = 0
    waiting: int = 0
    drained_for: float | None = None
    opens_in: float | None = None

    @property
    def limit(self) -> str:
        return split_bucket(self.name)[0]

    @property
    def key(self) -> str:
        return split_bucket(self.name)[1]


class Miscount(msgspec.Struct, frozen=True):
    """A bucket whose count was not that of the leases; it has been corrected."""

    bucket: str
    counted: int
    held: int


def shown(settings: Settings) -> dict[str, Any]:
    """The settings for people and JSON."""
    return {"kind": kind_of(settings), **msgspec.structs.asdict(settings)}


def require_same_kind(known: LimitInfo, settings: Settings, *, counts: bool) -> None:
    """A bucket cannot go on counting as another kind of limit."""
    if counts and not known.retired and kind_of(known.settings) != kind_of(settings):
        expected = f"a {kind_of(known.settings)} limit, as it is: jobs that it counts are running"
        raise BadOption(f"limit {known.name!r}", expected, settings)


def require_override(name: str, known: Sequence[LimitInfo], settings: Settings | None) -> None:
    if not known:
        raise BadOption(f"limit {name!r}", "a limit that is defined", "none of this name")
    if settings is not None and kind_of(settings) != kind_of(known[0].settings):
        raise BadOption(f"limit {name!r}", f"settings of {kind_of(known[0].settings)}", settings)
