"""Failures on Postgres.

A statement that ends attempts with errors adds rows to `failing`, and waits for nobody.
`Telemetry.fold` empties `failing` into the failures and their samples.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from holdfast.job.ids import JobId
from holdfast.job.record import ErrorEntry
from holdfast.store.contract.failures import DEAD_COUNTED, Behind, Failure
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record


class PostgresFailures:
    """See `holdfast.store.contract.failures.Failures` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

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
        place = behind or (None, None)
        wanted = ([*fingerprints] or None, [*tasks] or None, since, muted, limit, *place)
        found = await self._connections.timed("failures/find", *wanted, DEAD_COUNTED)
        return [_failure(row) for row in found]

    async def mute(self, fingerprints: Sequence[str], until: datetime | None) -> list[str]:
        return await self._mark("failures/mute", fingerprints, until)

    async def note(self, fingerprints: Sequence[str], note: str | None) -> list[str]:
        return await self._mark("failures/note", fingerprints, note)

    async def _mark(
        self, verb: str, fingerprints: Sequence[str], mark: datetime | str | None
    ) -> list[str]:
        found = await self._connections.fetch(verb, [*fingerprints], mark) if fingerprints else []
        return sorted(row["fingerprint"] for row in found)

    async def prune(self, limit: int, kept_for: float, most: int) -> int:
        values = (limit, kept_for, most)
        return int((await self._connections.timed("failures/prune", *values))[0][0])


def _failure(row: Record) -> Failure:
    name = row["fingerprint"]
    return Failure(
        fingerprint=name,
        task=row["task"],
        kind=row["kind"],
        count=row["times"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        dead=row["dead"],
        job_id=JobId(str(row["job_id"])),
        sample=ErrorEntry(
            row["attempt"], row["kind"], row["message"], row["traceback"], row["sampled_at"], name
        ),
        muted_until=row["muted_until"],
        note=row["note"],
    )
