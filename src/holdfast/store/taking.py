"""What a handler takes from buckets in mid-run and gives back: the rule of those stores that decide
it in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.limits.admission import Bucket, never_granted
from holdfast.limits.model import SECOND, Budget
from holdfast.store.contract.limits import Take, Taken


class OpenBuckets(Protocol):
    """Buckets that one transaction has read, and writes when it ends."""

    def get(self, name: str) -> Bucket: ...

    def change(self, name: str) -> Bucket:
        """The bucket, which will be written."""
        ...

    def opens_at(self, name: str, units: int, names: Sequence[str]) -> int | None:
        """When so much may be taken of a bucket, of those that are taken together; None if only an
        operator can make room."""
        ...


def taken(buckets: OpenBuckets, one: Take, now: int) -> Taken:
    """Take from all of these buckets or from none."""
    never = never_granted(buckets.get(one.bucket), one.units, now)
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


def given(buckets: OpenBuckets, one: Take, now: int) -> None:
    """Undo what `taken` did: nothing came of it."""
    for name in one.buckets:
        found = buckets.change(name)
        if isinstance(found.settings, Budget):
            found.spend(-one.units, now, is_parent=name != one.bucket)
        else:
            found.untake(one.units, one.at, now)
