"""Buckets on Postgres, while a verb looks at them. Who changes buckets locks their rows by name.

Claims and ends count in the server (`migrations/0023_admission.sql`). All other verbs read a bucket
under its lock, let `holdfast.limits.admission` change it, and write it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.job.ids import JobId
from holdfast.job.passing import bucket_of, parents_in
from holdfast.limits.admission import Bucket
from holdfast.limits.model import from_json
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.pool import Record

Drain = tuple[str, float]  # a limit, and how long it should be shut


class LockedBuckets:
    """Buckets that are locked until the end of the transaction, and the time by which they are
    judged."""

    def __init__(self, session: Session, channel: str) -> None:
        self._session = session
        self._channel = channel
        self._known: dict[str, Bucket] = {}
        self._changed: set[str] = set()
        self.now = 0

    async def lock(self, names: Iterable[str]) -> None:
        """All that the verb needs, at once."""
        wanted = sorted(set(names))
        while wanted:  # an idle bucket may be forgotten in between
            await self._session.timed("limits/make", wanted)
            rows = await self._session.timed("limits/lock", wanted)
            if len(rows) == len(wanted):
                self._known = {row["name"]: bucket(row) for row in rows}
                self.now = rows[-1]["locked_at"]
                return

    def get(self, name: str) -> Bucket:
        return self._known[name]

    def change(self, name: str) -> Bucket:
        """A bucket that is to be saved."""
        self._changed.add(name)
        return self._known[name]

    def opens_at(self, name: str, units: int, names: Sequence[str]) -> int | None:
        """When so much is free at one of these buckets, which are taken together."""
        found = self.get(name)
        if found.free(self.now, is_parent=name in parents_in(names)) >= units:
            return self.now
        return found.opens_at(self.now, units)

    async def save(self) -> None:
        changed = [self._known[name] for name in sorted(self._changed)]
        if changed:
            await self._session.timed(
                "limits/save",
                self._channel,
                [one.name for one in changed],
                [one.spent for one in changed],
                [one.since for one in changed],
                [one.scale for one in changed],
                [_literal(one.slices) for one in changed],
                [_literal(one.slices.values()) for one in changed],
                [one.alarms for one in changed],
            )
            # whether lines wait is as true as all else of a row that is locked
            waited_for = [one.name for one in changed if one.has_waiting]
            await look_again(self._session, self._channel, buckets=waited_for)


def _literal(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def bucket(row: Record) -> Bucket:
    """From the columns of the part `bucket_columns`."""
    text = None if row["settings"] is None else (row["override"] or row["settings"])
    return Bucket(
        name=row["name"],
        settings=None if text is None else from_json(text),
        has_own=row["override"] is not None,
        retired=row["retired"],
        in_use=row["in_use"],
        shut_until=row["shut_until"],
        has_waiting=row["has_waiting"],
        needs=row["needs"],
        spent=row["spent"],
        since=row["since"],
        scale=row["scale"],
        slices=dict(zip(row["slices"] or (), row["units"] or (), strict=True)),
        alarms=row["alarms"],
    )


async def look_again(
    session: Session,
    channel: str,
    *,
    buckets: Collection[str] = (),
    limits: Collection[str] = (),
) -> None:
    """Let claims look again at buckets that hold lines up, and wake those who wait there."""
    if buckets or limits:
        await session.timed("limits/look_again", channel, [*buckets], [*limits])


async def throttle(
    session: Session,
    channel: str,
    passed: Mapping[JobId, str],
    drains: Mapping[JobId, Drain],
) -> None:
    """In the transaction that ended the leases. `passed`: the buckets that counted each job."""
    hints: dict[str, float] = {}
    for job, (limit, hint) in drains.items():
        name = bucket_of(passed.get(job), limit)
        hints[name] = max(hint, hints.get(name, 0.0))
    untuned = QueueSettings()
    base, cap = untuned.throttle_base, untuned.throttle_cap
    await session.timed("limits/throttle", [*hints], [*hints.values()], base, cap)
    await look_again(session, channel, buckets=hints)
