"""Failures: their samples are errors of jobs, encrypted as those are."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import msgspec

from holdfast.store.contract.failures import Behind, Failure, Failures
from holdfast.store.sealed.records import Records


class SealedFailures:
    def __init__(self, failures: Failures, records: Records) -> None:
        self._failures = failures
        self._records = records
        self.mute = failures.mute
        self.note = failures.note
        self.prune = failures.prune

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
        found = await self._failures.find(
            fingerprints, tasks=tasks, since=since, muted=muted, limit=limit, behind=behind
        )
        return [self._opened(failure) for failure in found]

    def _opened(self, failure: Failure) -> Failure:
        sample = self._records.error(failure.job_id, failure.sample)
        return msgspec.structs.replace(failure, sample=sample)
