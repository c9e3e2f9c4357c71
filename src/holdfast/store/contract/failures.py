"""Failures: errors of one cause, counted together under their fingerprint.

Whatever ends an attempt with an error (`Finishing.finish`, `reclaim`) counts the error in the same
transaction or script. So a count is exact at any committed moment, an end that is refused or
repeated counts nothing, and an attempt that does not fail pays nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.record import ErrorEntry

SAMPLE_SECONDS = 60.0
"""A sample is replaced when it is older, so that a flood of errors writes few long texts."""
DEAD_COUNTED = 1_000
"""The jobs that failed for good are counted up to this number: beyond it only "many" matters."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of one cause: how often and when attempts ended with them.

    `sample` is one of the errors, of the job `job_id`: the last, or one that came at most
    `SAMPLE_SECONDS` before the last. `dead` counts the jobs that failed for good with such an error
    and are still kept, up to `DEAD_COUNTED`. Until `muted_until` nobody wants to hear of it.
    """

    fingerprint: str
    task: str
    kind: str
    count: int
    first_at: datetime
    last_at: datetime
    dead: int
    job_id: JobId
    sample: ErrorEntry
    muted_until: datetime | None = None
    note: str | None = None


class Behind(NamedTuple):
    """The last failure of the page before."""

    last_at: datetime
    fingerprint: str


class Failures(Protocol):
    async def find(
        self,
        fingerprints: Collection[str] = (),
        *,
        tasks: Collection[str] = (),
        since: datetime | None = None,
        muted: bool = True,
        limit: int = 50,
        behind: Behind | None = None,
    ) -> list[Failure]:
        """Failures, last seen first; empty words mean any. `since`: only those that were seen at
        or after this moment. `muted` False: without those that are muted now. A failure that is
        seen again goes to the front, so a walk over pages may miss it."""
        ...

    async def mute(self, fingerprints: Sequence[str], until: datetime | None) -> list[str]:
        """Mute failures until a moment, or not at all; returns those that are known, sorted."""
        ...

    async def note(self, fingerprints: Sequence[str], note: str | None) -> list[str]:
        """Write a note on failures, or remove it; returns those that are known, sorted."""
        ...

    async def prune(self, limit: int, kept_for: float, most: int) -> int:
        """Forget up to `limit` failures. Those go that were not seen for `kept_for` seconds, are
        not muted, and have no dead jobs. Beyond `most` failures others go too: first those without
        a mute and without dead jobs, of these the oldest. Dead jobs keep their fingerprints."""
        ...
