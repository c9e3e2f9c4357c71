"""What is taken from buckets and given back without a lease: by handlers, and by operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.errors import BadOption
from holdfast.job.passing import split_bucket
from holdfast.limits.model import Alarm, Concurrency, require_budget
from holdfast.store.contract.limits import Take, Taken
from holdfast.store.postgres.buckets import LockedBuckets
from holdfast.store.postgres.connection import Session
from holdfast.store.taking import given, taken


async def take(session: Session, channel: str, takes: Sequence[Take]) -> list[Taken]:
    buckets = LockedBuckets(session, channel)
    await buckets.lock(name for one in takes for name in one.buckets)
    answers = [taken(buckets, one, buckets.now) for one in takes]
    await buckets.save()
    return answers


async def give(session: Session, channel: str, takes: Sequence[Take]) -> None:
    buckets = LockedBuckets(session, channel)
    await buckets.lock(name for one in takes for name in one.buckets)
    for one in takes:
        given(buckets, one, buckets.now)
    await buckets.save()


async def adjust(session: Session, channel: str, bucket: str, amount: int) -> None:
    buckets = LockedBuckets(session, channel)
    await buckets.lock([bucket])
    found = buckets.change(bucket)
    require_budget(bucket, found.settings)
    found.adjust(amount, buckets.now)
    await buckets.save()


async def reset(session: Session, channel: str, names: Collection[str]) -> None:
    buckets = LockedBuckets(session, channel)
    await buckets.lock(names)
    for name in names:
        found = buckets.change(name)
        if found.settings is None or isinstance(found.settings, Concurrency):
            expected = "a rate or a budget: only ends of jobs give back what others count"
            raise BadOption(f"limit {split_bucket(name)[0]!r}", expected, found.settings)
        found.forget()
    await buckets.save()


async def alarms(session: Session, channel: str, limit: int) -> list[Alarm]:
    names = [row["name"] for row in await session.fetch("limits/alarms", limit)]
    buckets = LockedBuckets(session, channel)
    await buckets.lock(names)
    told = [alarm for name in names for alarm in buckets.change(name).told()]
    await buckets.save()
    return told
