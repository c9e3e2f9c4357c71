"""What is taken from buckets and given back without a lease: by handlers, and by operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.errors import BadOption
from holdfast.job.passing import split_bucket
from holdfast.limits.admission import never_granted
from holdfast.limits.model import SECOND, Alarm, Budget, Concurrency, require_budget
from holdfast.store.contract.limits import Take, Taken
from holdfast.store.postgres.buckets import LockedBuckets
from holdfast.store.postgres.connection import Session


async def take(session: Session, channel: str, takes: Sequence[Take]) -> list[Taken]:
    buckets = LockedBuckets(session, channel)
    await buckets.lock(name for one in takes for name in one.buckets)
    taken = [_take(buckets, one) for one in takes]
    await buckets.save()
    return taken


def _take(buckets: LockedBuckets, one: Take) -> Taken:
    now = buckets.now
    never = never_granted(buckets.get(one.bucket), one.units)
    if never is not None:
        return Taken(False, refused=never)
    opens = [buckets.opens_at(name, one.units, one.buckets) for name in one.buckets]
    later = [at for at in opens if at is None or at > now]
    if None in later:
        return Taken(False)
    if later:
        return Taken(False, wait=max((at - now) / SECOND for at in later if at is not None))
    for name in one.buckets:
        found = buckets.change(name)
        if isinstance(found.settings, Budget):
            found.spend(one.units, now, is_parent=name != one.bucket)
        else:
            found.take(one.units, now)
    return Taken(True, at=now)


async def give(session: Session, channel: str, takes: Sequence[Take]) -> None:
    buckets = LockedBuckets(session, channel)
    await buckets.lock(name for one in takes for name in one.buckets)
    for one in takes:
        for name in one.buckets:
            found = buckets.change(name)
            if isinstance(found.settings, Budget):
                found.spend(-one.units, buckets.now, is_parent=name != one.bucket)
            else:
                found.untake(one.units, one.at, buckets.now)
    await buckets.save()


async def adjust(session: Session, channel: str, bucket: str, amount: int) -> None:
    buckets = LockedBuckets(session, channel)
    await buckets.lock([bucket])
    found = buckets.change(bucket)
    require_budget(bucket, found.settings)
    found.spend(-amount, buckets.now, is_parent=True)  # it is not passed by this
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
