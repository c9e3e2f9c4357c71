"""The totals of queues: how many of a queue's jobs may run at once in all workers together."""

from __future__ import annotations

from holdfast.job.passing import parted, total_name, with_bucket
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.buckets import Buckets, look_again
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import MANY, Row, Transaction


def count_total(tx: Transaction, queue: str, most: int | None) -> None:
    """The settings of a queue were changed. A new total counts what runs already: each lease gets
    it into its receipt. One that is given up stays in the receipts, and its ends are counted."""
    name = total_name(queue)
    if most is not None:
        _count_running(tx, queue, name)
    look_again(tx, [name])
    tx.wake(Topic.READY, queue, MANY)
    tx.wake(Topic.FLEET, queue)


def _count_running(tx: Transaction, queue: str, name: str) -> None:
    sql = steps("queues/count_total")
    rows: list[Row] = []
    for job_id, buckets, costs in tx.rows(sql["leases"], (queue,)):
        if name not in parted(buckets):
            rows.append((*with_bucket(buckets, costs, name), job_id))
    tx.each(sql["receipt"], rows)
    buckets = Buckets(tx)
    buckets.change(name).in_use += len(rows)
    buckets.save()
