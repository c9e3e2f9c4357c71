"""Limits and their buckets. Buckets are counted by `Claiming.claim` and given back by `finish`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.limits.model import BucketInfo, LimitInfo, Miscount, Settings

IDLE_SECONDS = 600.0
"""How long a bucket that holds nothing keeps its row."""


class BucketHolder(msgspec.Struct, frozen=True):
    """A running job that a bucket counts."""

    job_id: JobId
    task: str
    worker_id: WorkerId
    claimed_at: datetime


class Recounted(msgspec.Struct, frozen=True):
    """How many buckets were recounted, which were wrong, how many were idle and are forgotten, and
    where to go on."""

    buckets: int
    wrong: tuple[Miscount, ...] = ()
    forgotten: int = 0
    cursor: str | None = None


class Limits(Protocol):
    """Definitions of limits, and the buckets that claims count in.

    A bucket is named `limit:key` (`holdfast.job.passing`). It has a row only while it counts or
    holds up something, is drained, or has settings of its own. Whoever changes a limit lets the
    jobs that wait for it be looked at again, and wakes their workers. Nothing that runs is
    stopped: a bucket that holds more than a lowered limit lets none begin until enough have ended.
    """

    async def declare(self, limits: Mapping[str, Settings]) -> None:
        """Define limits as a program has them. A limit that an operator has edited keeps its
        settings, and a retired limit is in force again. Raises `BadOption` for a limit that is
        there with another kind and counts something."""
        ...

    async def put(self, name: str, settings: Settings) -> LimitInfo:
        """Define a limit as an operator wants it; declarations no longer change it. Raises as
        `declare`."""
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

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        """These limits, or all, by name."""
        ...

    async def of(self, ids: Collection[JobId]) -> dict[JobId, str]:
        """The buckets that these jobs pass (`holdfast.job.passing`). Jobs without limits are left
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

    async def recount(
        self,
        limit: int,
        after: str | None = None,
        *,
        idle_for: float = IDLE_SECONDS,
        mend: bool = True,
    ) -> Recounted:
        """Compare up to `limit` buckets with the leases that name them. There must be no
        difference: the count and the lease change in the same write. With `mend`, those that differ
        are corrected, and the rows of buckets that have held nothing for `idle_for` seconds are
        removed."""
        ...

    async def held_up(self, queues: Collection[str], tasks: Collection[str]) -> int:
        """How many ready jobs of these queues and tasks wait at buckets that are shut and count no
        job: no end of a job will let them begin, only time or an operator."""
        ...

    async def opens_in(self) -> float | None:
        """Seconds until time opens a bucket that holds up jobs; None if there is none."""
        ...
