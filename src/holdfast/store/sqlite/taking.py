"""What is taken from buckets and given back without a lease: by handlers, and by operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.errors import BadOption
from holdfast.job.passing import split_bucket
from holdfast.limits.model import Alarm, Concurrency, require_budget
from holdfast.store.contract.limits import Take, Taken
from holdfast.store.sqlite.buckets import Buckets, look_again
from holdfast.store.sqlite.scripts import script
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.taking import given, taken


def take(tx: Transaction, takes: Sequence[Take]) -> list[Taken]:
    buckets = Buckets(tx)
    buckets.load({name for one in takes for name in one.buckets})
    answers = [taken(buckets, one, tx.now) for one in takes]
    buckets.save()
    return answers


def give(tx: Transaction, takes: Sequence[Take]) -> None:
    buckets = Buckets(tx)
    for one in takes:
        given(buckets, one, tx.now)
    buckets.save()
    look_again(tx, {name for one in takes for name in one.buckets})


def adjust(tx: Transaction, bucket: str, amount: int) -> None:
    buckets = Buckets(tx)
    found = buckets.change(bucket)
    require_budget(bucket, found.settings)
    found.adjust(amount, tx.now)
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
