"""What is taken from buckets and given back without a lease: by handlers, and by operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.errors import BadOption
from holdfast.job.passing import split_bucket
from holdfast.limits.admission import never_granted
from holdfast.limits.model import Alarm, Budget, Concurrency, require_budget
from holdfast.store.contract.limits import Take, Taken
from holdfast.store.sqlite.buckets import Buckets, look_again
from holdfast.store.sqlite.rows import seconds_until
from holdfast.store.sqlite.scripts import script
from holdfast.store.sqlite.transaction import Transaction


def take(tx: Transaction, takes: Sequence[Take]) -> list[Taken]:
    buckets = Buckets(tx)
    buckets.load({name for one in takes for name in one.buckets})
    taken = [_take(buckets, one, tx.now) for one in takes]
    buckets.save()
    return taken


def _take(buckets: Buckets, one: Take, now: int) -> Taken:
    never = never_granted(buckets.get(one.bucket), one.units)
    if never is not None:
        return Taken(False, refused=never)
    opens = [buckets.opens_at(name, one.units, one.buckets) for name in one.buckets]
    later = [at for at in opens if at is None or at > now]
    if None in later:
        return Taken(False)
    if later:
        return Taken(False, wait=max(seconds_until(at, now) for at in later if at is not None))
    for name in one.buckets:
        found = buckets.change(name)
        if isinstance(found.settings, Budget):
            found.spend(one.units, now, is_parent=name != one.bucket)
        else:
            found.take(one.units, now)
    return Taken(True, at=now)


def give(tx: Transaction, takes: Sequence[Take]) -> None:
    buckets = Buckets(tx)
    for one in takes:
        for name in one.buckets:
            found = buckets.change(name)
            if isinstance(found.settings, Budget):
                found.spend(-one.units, tx.now, is_parent=name != one.bucket)
            else:
                found.untake(one.units, one.at, tx.now)
    buckets.save()
    look_again(tx, {name for one in takes for name in one.buckets})


def adjust(tx: Transaction, bucket: str, amount: int) -> None:
    buckets = Buckets(tx)
    found = buckets.change(bucket)
    require_budget(bucket, found.settings)
    found.spend(-amount, tx.now, is_parent=True)  # it is not passed by this
    buckets.save()
    look_again(tx, [bucket])


def reset(tx: Transaction, names: Collection[str]) -> None:
    buckets = Buckets(tx)
    for name in names:
        found = buckets.change(name)
        if found.settings is None or isinstance(found.settings, Concurrency):
            expected = "a rate or a budget: only ends of jobs give back what others count"
            raise BadOption(f"limit {split_bucket(name)[0]!r}", expected, found.settings)
        found.forget()
    buckets.save()
    look_again(tx, names)


def alarms(tx: Transaction, limit: int) -> list[Alarm]:
    buckets = Buckets(tx)
    names = [name for (name,) in tx.rows(script("limits/alarms"), (limit,))]
    buckets.load(names)
    told = [alarm for name in names for alarm in buckets.change(name).told()]
    buckets.save()
    return told
