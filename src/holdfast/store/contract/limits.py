"""Limits and their buckets. Buckets are counted by `Claiming.claim` and given back by `finish`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import Passed
from holdfast.limits.model import Alarm, BucketInfo, LimitInfo, Miscount, Settings

MOST_OPENINGS = 100
"""So many buckets, and so many lines at each, are looked at for the next opening."""
IDLE_SECONDS = 600.0
"""How long a bucket that holds nothing keeps its row."""


class BucketHolder(msgspec.Struct, frozen=True):
    """A running job that a bucket counts."""

    job_id: JobId
    task: str
    worker_id: WorkerId
    claimed_at: datetime


class BucketWaiter(msgspec.Struct, frozen=True):
    """The first job of a line that is parked at a bucket, and what it needs there."""

    job_id: JobId
    task: str
    queue: str
    needs: int


class Recounted(msgspec.Struct, frozen=True):
    """How many buckets were recounted, which were wrong, how many were idle and are forgotten, and
    where to go on."""

    buckets: int
    wrong: tuple[Miscount, ...] = ()
    forgotten: int = 0
    cursor: str | None = None


class Take(msgspec.Struct, frozen=True):
    """Units that a running handler asks of a bucket. The buckets of `beside` are taken too, all or
    none: those that lead to the bucket of a budget by its path. Who gives back says `at` which
    moment it was granted."""

    bucket: str
    units: int = 1
    beside: tuple[str, ...] = ()
    at: int = 0

    @property
    def buckets(self) -> tuple[str, ...]:
        return (*self.beside, self.bucket)


class Taken(msgspec.Struct, frozen=True):
    """Whether a take was granted, and `at` which moment, in microseconds of the store's clock. If
    not, `wait` is how many seconds later there is room, None where time alone does not make it.
    `refused` says why it can never be granted."""

    granted: bool
    wait: float | None = None
    refused: str | None = None
    at: int = 0


class Limits(Protocol):
    """Definitions of limits, and the buckets that claims count in.

    A bucket is named `limit:key` (`holdfast.job.passing`). It has a row only while it counts or
    holds up something, is drained, or has settings of its own. Whoever changes a limit lets the
    jobs that wait for it be looked at again, and wakes their workers. Nothing that runs is
    stopped: a bucket that holds more than a lowered limit lets none begin until enough have ended.
    `holdfast.limits.admission` states what each kind of limit does.

    The totals of queues count in buckets too, and are no limits: the queues' own settings change
    them. `declare`, `put`, `override`, `retire` and `drain` raise `BadOption` for their name, and
    change nothing.

    Jobs of one line begin in their order. A job that costs more than one of its buckets ever lets
    pass stands aside, so that those behind it go on. It can begin as soon as its limit lets so much
    pass. A limit that lets nothing pass at all is shut: nobody costs too much there.
    """

    async def declare(self, limits: Mapping[str, Settings]) -> None:
        """Define limits as a program has them. A limit that an operator has edited keeps its
        settings, and a retired limit is in force again. Raises `BadOption` for a limit that is
        there with another kind, unless it is retired: then it begins anew, and an edit of the
        other kind is forgotten."""
        ...

    async def put(self, name: str, settings: Settings) -> LimitInfo:
        """Define a limit as an operator wants it; declarations no longer change it. Raises
        `BadOption` for a limit that is there with another kind and counts something."""
        ...

    async def override(self, name: str, key: str, settings: Settings | None) -> BucketInfo:
        """Give one bucket settings of its own; None drops them. Raises `BadOption` if the limit is
        not defined or is of another kind."""
        ...

    async def retire(self, names: Collection[str]) -> list[str]:
        """Let these limits hold nothing up any more; answers those that are defined."""
        ...

    async def drain(self, buckets: Mapping[str, float]) -> None:
        """Let nothing begin through these buckets for so many seconds, at least. 0 ends a drain
        at once, and forgets the throttles of the bucket."""
        ...

    async def take(self, takes: Sequence[Take]) -> list[Taken]:
        """Take permits for what a handler does, one take after the other. A rate counts them, and
        a budget spends them. They belong to no lease: no end gives them back. Lines that wait at
        a bucket are no concern of a take. Refused where the limit is not defined or is a
        concurrency, which only a lease can hold, and for more than the limit ever lets pass."""
        ...

    async def give(self, takes: Sequence[Take]) -> None:
        """Give back permits that were granted `at` a moment and were not used. What a rate has
        regained since then is not given back again."""
        ...

    async def adjust(self, bucket: str, amount: int) -> BucketInfo:
        """Let so much more be spent of a budget in its period, or less if below 0. Raises
        `BadOption` if the limit is no budget."""
        ...

    async def reset(self, buckets: Collection[str]) -> list[BucketInfo]:
        """Let these budgets and rates forget what was spent and what began. Raises `BadOption`
        for a concurrency: only ends give back what it counts."""
        ...

    async def alarms(self, limit: int) -> list[Alarm]:
        """Up to about so many alarms of budgets that nobody has told yet. Each comes once in a
        bucket's period, to one caller."""
        ...

    async def weigh(self, fair: str, weight: int | None) -> None:
        """Let the lines of this key of fairness have this weight in every queue, whatever their
        jobs say; None leaves it to the jobs again. It counts from their next turn on."""
        ...

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        """These limits, or all, by name."""
        ...

    async def of(self, ids: Collection[JobId]) -> dict[JobId, Passed]:
        """The buckets that these jobs pass, and at which costs. Jobs without limits are left
        out."""
        ...

    async def get(self, buckets: Collection[str]) -> list[BucketInfo]:
        """These buckets as they stand, in the order asked; also those that have no row."""
        ...

    async def buckets(
        self, name: str | None, limit: int, after: str | None = None
    ) -> list[BucketInfo]:
        """Up to `limit` buckets of one limit, or of all, that have a row: by name, behind
        `after`."""
        ...

    async def holders(self, bucket: str, limit: int) -> list[BucketHolder]:
        """The jobs that the bucket counts, the oldest first."""
        ...

    async def waiters(self, bucket: str, limit: int, *, never: bool = False) -> list[BucketWaiter]:
        """The first jobs of lines that are parked at the bucket, in the order in which they will go
        on. With `never`, only of those that cost more than it ever lets pass; without, only of the
        others."""
        ...

    async def before(self, ids: Collection[JobId]) -> dict[JobId, JobId]:
        """Of ready jobs that are not the first of their lines: the jobs that are. A job that is
        first or has no limits is left out."""
        ...

    async def recount(
        self,
        limit: int,
        after: str | None = None,
        *,
        idle_for: float = IDLE_SECONDS,
        mend: bool = True,
    ) -> Recounted:
        """Compare up to `limit` buckets with the leases that name them. There must be no
        difference: a bucket counts what the leases that name it cost, and both change in the same
        write. With `mend`, those that differ
        are corrected, and the rows of buckets that have held nothing for `idle_for` seconds are
        removed."""
        ...

    async def held_up(
        self, queues: Collection[str], tasks: Collection[str], labels: Collection[str] | None = None
    ) -> int:
        """How many ready jobs of these queues and tasks wait at buckets that are shut and count no
        job, or need a label that is not among these, if any are given: no end of a job will let
        them begin, only time, an operator or another worker."""
        ...

    async def opens_in(self, queues: Collection[str] | None = None) -> float | None:
        """Seconds until time opens a bucket that holds up jobs of these queues, or of any; None if
        there is none. Of very many buckets and lines that wait, the first are looked at: where
        they leave it open, the answer is too early and never too late."""
        ...
