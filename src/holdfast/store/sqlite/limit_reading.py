"""Limits and buckets as operators see them."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.limits.admission import Bucket
from holdfast.limits.model import BucketInfo, Budget, LimitInfo, from_json
from holdfast.store.sqlite.buckets import bucket
from holdfast.store.sqlite.rows import seconds_until, to_json
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
    found, override, waiting, now = bucket(row), row[6], row[11], tx.now
    opens_at = found.opens_at(now, found.needs or 1)
    shut_until = found.shut_until if found.is_shut(now) else None
    return BucketInfo(
        name=found.name,
        settings=found.settings,
        override=None if override is None else from_json(override),
        retired=found.retired,
        in_use=found.in_use,
        spent=found.counted(now),
        free=found.free(now),
        room=found.room(now),
        waiting=waiting,
        stuck=_stuck(tx, found) if waiting else 0,
        needs=found.needs or None if waiting else None,
        drained_for=None if shut_until is None else seconds_until(shut_until, now),
        opens_in=None if opens_at is None else max(0.0, seconds_until(opens_at, now)),
        resets_in=_resets_in(found, now),
        soft_reached=found.soft_reached(now),
        added=found.added(now),
    )


def _stuck(tx: Transaction, found: Bucket) -> int:
    [(lines,)] = tx.rows(steps("limits/waiters")["stuck"], (found.name, found.most_passing(tx.now)))
    return int(lines)


def _resets_in(found: Bucket, now: int) -> float | None:
    end = found.settings.period(now).end if isinstance(found.settings, Budget) else None
    return None if end is None else seconds_until(end, now)
