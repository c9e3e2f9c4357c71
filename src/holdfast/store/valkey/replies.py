"""Replies of the server as Python's values. The driver of a cluster has converted some already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.job.ids import JobId


def paired(reply: Any) -> list[tuple[str, bytes]]:
    """Fields and values of a hash."""
    if isinstance(reply, dict):
        return [(field.decode(), value) for field, value in reply.items()]
    return [(field.decode(), value) for field, value in zip(reply[::2], reply[1::2], strict=True)]


def numbers_in(reply: Any) -> Counter[str]:
    """Counts by field, from a reply in which a field may come several times."""
    sums: Counter[str] = Counter()
    for field, number in paired(reply):
        sums[field] += int(number)
    return sums


def scored(reply: Any) -> list[tuple[str, float]]:
    """Members and scores of a sorted set."""
    if reply and isinstance(reply[0], list | tuple):
        return [(member.decode(), float(score)) for member, score in reply]
    return [
        (member.decode(), float(score))
        for member, score in zip(reply[::2], reply[1::2], strict=True)
    ]


def ids_of(reply: Sequence[bytes]) -> list[JobId]:
    return [JobId(one.decode()) for one in reply]
