"""Limits and buckets as operators see them."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.limits.admission import Bucket
from holdfast.limits.model import BucketInfo, LimitInfo, from_json
from holdfast.limits.showing import bucket_info
from holdfast.store.sqlite.buckets import bucket
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction


def find_limits(tx: Transaction, names: Collection[str]) -> list[LimitInfo]:
    wanted = {"names": to_json(names) if names else None}
    return [
        LimitInfo(
            name=name,
            settings=from_json(settings),
            edited=bool(edited),
            retired=bool(retired),
            revision=revision,
            buckets=buckets,
        )
        for name, settings, edited, retired, revision, buckets in tx.rows(
            script("limits/find"), wanted
        )
    ]


def look_at(tx: Transaction, buckets: Collection[str]) -> list[BucketInfo]:
    return [_info(tx, row) for row in tx.rows(script("limits/get"), (to_json(buckets),))]


def _info(tx: Transaction, row: Row) -> BucketInfo:
    found, waiting = bucket(row), row[11]
    return bucket_info(found, tx.now, waiting, _stuck(tx, found) if waiting else 0)


def _stuck(tx: Transaction, found: Bucket) -> int:
    [(lines,)] = tx.rows(steps("limits/waiters")["stuck"], (found.name, found.most_passing(tx.now)))
    return int(lines)
