"""The words of limits. Stores keep a definition as one JSON text (`to_json`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.passing import MOST_UNITS, split_bucket
from holdfast.limits.periods import Every, Period, period_at, zone_named

SECOND = 1_000_000
EXACT = 2**53
"""Below it every store has whole numbers, also one that counts in floating point."""
SLICES = 64


class Concurrency(msgspec.Struct, frozen=True, tag="concurrency", tag_field="kind"):
    """At most `most` jobs run at once, in all workers together. 0 lets none begin."""

    most: int

    def __post_init__(self) -> None:
        checks.count("Concurrency(most)", self.most, least=0)

    @property
    def largest(self) -> int:
        """The largest cost that can ever pass."""
        return self.most


class Rate(msgspec.Struct, frozen=True, tag="rate", tag_field="kind"):
    """At most `most` jobs begin in any window of `per` seconds. With a `burst`, permits come one
    by one at this rate, and up to `burst` of them are saved while nobody needs them."""

    most: int
    per: float
    burst: int | None = None

    def __post_init__(self) -> None:
        checks.count("Rate(most)", self.most, least=0, most=MOST_UNITS)
        per: object = self.per
        seconds = checks.wait("Rate(per=…)", per, zero=False)
        if isinstance(per, timedelta | int):
            msgspec.structs.force_setattr(self, "per", float(seconds))
        if self.per_micros < SLICES:
            raise BadOption("Rate(per=…)", f"at least {SLICES} microseconds", per)
        if self.burst is not None:
            checks.count("Rate(burst=…)", self.burst, most=MOST_UNITS)
            self._require_countable(self.burst)

    def _require_countable(self, burst: int) -> None:
        if self.most and burst * self.permit >= EXACT:
            expected = "a rounder rate, such as 1000 per second: this one cannot be counted exactly"
            raise BadOption("Rate(…, burst=…)", expected, f"{self.most} per {self.per:g} s")

    @property
    def largest(self) -> int:
        return self.most if self.burst is None or self.most == 0 else self.burst

    @property
    def per_micros(self) -> int:
        return round(self.per * SECOND)

    @property
    def slice(self) -> int:
        """How many microseconds of a window are counted together."""
        return -(-self.per_micros // SLICES)

    @property
    def permit(self) -> int:
        """The parts that a permit has; each microsecond brings `growth` of them."""
        return self.per_micros // math.gcd(self.most, self.per_micros)

    @property
    def growth(self) -> int:
        return self.most // math.gcd(self.most, self.per_micros)


class Budget(msgspec.Struct, frozen=True, tag="budget", tag_field="kind"):
    """At most `hard` units are spent or reserved when a job begins. A job reserves its cost, and
    its end settles it with what was reported. `every` ("hour", "day", "month" or seconds) all is
    forgotten, at midnight of the `timezone`. Reaching `soft` is told once a period. What a job that
    failed did not report is refunded, or with `on_failure="charge"` spent."""

    hard: int
    soft: int | None = None
    every: Every = None
    timezone: str = "UTC"
    on_failure: Literal["refund", "charge"] = "refund"

    def __post_init__(self) -> None:
        checks.count("Budget(hard)", self.hard, least=0, most=MOST_UNITS)
        if self.soft is not None:
            checks.count("Budget(soft=…)", self.soft, least=0, most=self.hard)
        if self.on_failure not in ("refund", "charge"):
            raise BadOption("Budget(on_failure=…)", "'refund' or 'charge'", self.on_failure)
        zone_named(checks.text("Budget(timezone=…)", self.timezone, 100))
        self._check_every()

    def _check_every(self) -> None:
        every: object = self.every
        if every is None or every in ("hour", "day", "month"):
            return
        others = "'hour', 'day', 'month' or "
        seconds = checks.wait("Budget(every=…)", every, zero=False, otherwise=others)
        if round(seconds * SECOND) < 1:
            raise BadOption("Budget(every=…)", "at least a microsecond", every)
        if isinstance(every, timedelta | int):
            msgspec.structs.force_setattr(self, "every", float(seconds))

    @property
    def largest(self) -> int:
        return self.hard

    def period(self, now: int) -> Period:
        return period_at(self.every, self.timezone, now)


Settings = Concurrency | Rate | Budget

KINDS: dict[str, type[Settings]] = {"concurrency": Concurrency, "rate": Rate, "budget": Budget}


def kind_of(settings: Settings) -> str:
    return next(name for name, kind in KINDS.items() if isinstance(settings, kind))


def to_json(settings: Settings) -> str:
    return msgspec.json.encode(settings).decode()


@lru_cache(maxsize=1024)
def from_json(text: str) -> Settings:
    return _decoder.decode(text)


_decoder: msgspec.json.Decoder[Settings] = msgspec.json.Decoder(Settings)


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

    `in_use` is what running jobs cost; for a budget that is reserved. `spent` is what a budget has
    spent in its period beyond what was `added` by top-ups, so it may be below 0; or what a rate has
    let begin that still counts. `free` is what is not
    taken, and `room` what may begin now: nothing, if somebody waits for more than is free.
    `waiting`: how many lines are parked at it, of which the first one `needs` so much, and of which
    `stuck` cost more than the bucket ever lets pass.
    `drained_for`: seconds until a throttle is over. `opens_in`: seconds until time opens it, None
    where only an end or an operator does, and 0 where it has room. `resets_in`: seconds until a
    budget begins anew.
    """

    name: str
    settings: Settings | None
    override: Settings | None = None
    retired: bool = False
    in_use: int = 0
    spent: int = 0
    free: int = 0
    room: int = 0
    waiting: int = 0
    stuck: int = 0
    needs: int | None = None
    drained_for: float | None = None
    opens_in: float | None = None
    resets_in: float | None = None
    soft_reached: bool = False
    added: int = 0

    @property
    def largest(self) -> int:
        """The largest cost that can ever pass: in this period, of a budget that was topped up."""
        topped_up = max(0, -self.spent) if isinstance(self.settings, Budget) else 0
        return topped_up + (0 if self.settings is None else self.settings.largest)

    @property
    def limit(self) -> str:
        return split_bucket(self.name)[0]

    @property
    def key(self) -> str:
        return split_bucket(self.name)[1]


class Miscount(msgspec.Struct, frozen=True):
    """A bucket that `counted` other than the leases that name it, which `held` so much. A recount
    that mends has corrected it."""

    bucket: str
    counted: int
    held: int


class AlarmWhat(StrEnum):
    SOFT_REACHED = "soft_reached"
    OVERRUN = "overrun"


class Alarm(msgspec.Struct, frozen=True):
    """A budget has reached its soft amount, or more was spent than its hard one."""

    bucket: str
    what: AlarmWhat
    spent: int
    reserved: int
    settings: Budget


def shown(settings: Settings) -> dict[str, Any]:
    """The settings for people and JSON."""
    return {"kind": kind_of(settings), **msgspec.structs.asdict(settings)}


def is_other_kind(known: LimitInfo, settings: Settings) -> bool:
    return kind_of(known.settings) != kind_of(settings)


def require_declared_kind(known: LimitInfo, settings: Settings) -> None:
    """Programs of one store must agree on what a name means: if the last one to start won, the jobs
    of the others would pass a limit that their code does not have."""
    if is_other_kind(known, settings) and not known.retired:
        expected = (
            f"a {kind_of(known.settings)}, as this store has it from another program or release "
            f"(rename one of the two, or run 'holdfast limits retire {known.name}' if this program "
            "shall change what it is)"
        )
        raise BadOption(f"limit {known.name!r}", expected, settings)


def require_idle_kind(known: LimitInfo, settings: Settings, *, counts: bool) -> None:
    """An operator changes the kind of a limit only while no running job is counted by it."""
    if counts and not known.retired and is_other_kind(known, settings):
        expected = f"a {kind_of(known.settings)} limit, as it is: jobs that it counts are running"
        raise BadOption(f"limit {known.name!r}", expected, settings)


def require_defined(name: str, known: Sequence[LimitInfo]) -> None:
    if not known:
        raise BadOption("limit", "a limit that is defined (see 'holdfast limits list')", name)


def require_override(name: str, known: Sequence[LimitInfo], settings: Settings | None) -> None:
    require_defined(name, known)
    if settings is not None and kind_of(settings) != kind_of(known[0].settings):
        raise BadOption(f"limit {name!r}", f"settings of {kind_of(known[0].settings)}", settings)


def require_budget(bucket: str, settings: Settings | None) -> Budget:
    """For what only budgets know."""
    if isinstance(settings, Budget):
        return settings
    limit = split_bucket(bucket)[0]
    raise BadOption(f"limit {limit!r}", "a budget", "not defined" if settings is None else settings)
