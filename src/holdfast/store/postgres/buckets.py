"""Giving back what ended leases counted, on Postgres."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.job.ids import JobId
from holdfast.job.passing import bucket_of, parted
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.postgres.connection import Session

Drain = tuple[str, float]  # a limit, and how long it should be shut


async def give_back(
    session: Session,
    channel: str,
    receipts: Mapping[JobId, str],
    drains: Mapping[JobId, Drain],
) -> None:
    """In the transaction that ended the leases. `receipts`: the buckets that counted each job."""
    freed = Counter(name for receipt in receipts.values() for name in parted(receipt))
    if freed:
        await session.timed("limits/give_back", channel, [*freed], [*freed.values()])
    if drains:
        await _throttle(session, channel, receipts, drains)


async def _throttle(
    session: Session,
    channel: str,
    receipts: Mapping[JobId, str],
    drains: Mapping[JobId, Drain],
) -> None:
    hints: dict[str, float] = {}
    for job, (limit, hint) in drains.items():
        name = bucket_of(receipts.get(job), limit)
        hints[name] = max(hint, hints.get(name, 0.0))
    untuned = QueueSettings()
    base, cap = untuned.throttle_base, untuned.throttle_cap
    await session.timed("limits/throttle", [*hints], [*hints.values()], base, cap)
    await session.timed("limits/look_again", channel, [*hints], [])
