"""A bucket as operators see it, the same from every store."""

from __future__ import annotations

from holdfast.limits.admission import Bucket
from holdfast.limits.model import SECOND, BucketInfo, Budget


def bucket_info(found: Bucket, now: int, waiting: int, stuck: int) -> BucketInfo:
    """`waiting`: how many lines are parked there. `stuck`: how many of those can never pass."""
    settings = found.settings
    return BucketInfo(
        name=found.name,
        settings=settings,
        override=settings if found.has_own else None,
        retired=found.retired,
        in_use=found.in_use,
        spent=found.counted(now),
        free=found.free(now),
        room=found.room(now),
        waiting=waiting,
        stuck=stuck,
        needs=found.needs or None if waiting else None,
        drained_for=_seconds_until(found.shut_until, now) if found.is_shut(now) else None,
        opens_in=_seconds_until(
            found.opens_at(now, 1 if found.needs is None else found.needs), now
        ),
        resets_in=_seconds_until(settings.period(now).end, now)
        if isinstance(settings, Budget)
        else None,
        soft_reached=found.soft_reached(now),
        added=found.added(now),
    )


def _seconds_until(moment: int | None, now: int) -> float | None:
    return None if moment is None else max(0, moment - now) / SECOND
