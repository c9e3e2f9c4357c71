"""What leases have counted in buckets, and what is given back when they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.job.passing import costs_in, is_total, parents_in, parted, split_bucket
from holdfast.job.transition import Settles
from holdfast.limits.admission import Bucket
from holdfast.limits.model import Concurrency
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.buckets import Buckets, throttle
from holdfast.store.sqlite.transaction import Transaction

_spent = msgspec.json.Decoder(dict[str, int])


class Receipt(NamedTuple):
    """What ended leases have counted, all alike; `spent` was reported, by limit. `claimed_at` is
    known where they have not begun."""

    buckets: str
    costs: str | None
    leases: int
    spent: Mapping[str, int]
    how: Settles
    claimed_at: int = 0


def totals(kept: str | None, reported: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What an attempt has spent by limit. Later totals replace those that the lease has."""
    return {**({} if kept is None else _spent.decode(kept)), **dict(reported)}


def give_back(tx: Transaction, receipts: Sequence[Receipt], drains: Mapping[str, float]) -> None:
    """Give back what ended leases counted, and shut the buckets that an upstream asked to shut."""
    buckets = Buckets(tx)
    buckets.load({name for receipt in receipts for name in parted(receipt.buckets)})
    freed: dict[str, int] = {}
    for receipt in receipts:
        costs = costs_in(receipt.buckets, receipt.costs)
        parents = parents_in(list(costs)) if len(costs) > 1 else ()
        for name, cost in costs.items():
            one = buckets.change(name)
            if is_total(name) and not one.free(tx.now):
                tx.wake(Topic.READY, split_bucket(name)[1])
            _settle(one, receipt, cost, tx.now, is_parent=name in parents)
            freed[name] = freed.get(name, 0) + receipt.leases * cost
    for name, units in freed.items():
        buckets.wake(name, units)
    buckets.save()
    for name, hint in drains.items():
        throttle(tx, name, hint)


def _settle(one: Bucket, receipt: Receipt, cost: int, now: int, *, is_parent: bool) -> None:
    if type(one.settings) is Concurrency:
        one.in_use -= receipt.leases * cost
        return
    reported = receipt.spent.get(split_bucket(one.name)[0])
    facts = (reported, receipt.how, receipt.claimed_at)
    for _ in range(receipt.leases):
        one.settle(cost, *facts, now, is_parent=is_parent)
