"""How much began in one window of time, by the diary.

A claim admits its jobs at some moment between its question and its answer. So a window has
certainly let begin all whose claims lie wholly inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.support.diary import Entry

Span = tuple[float, float]


def claims_in(entries: Iterable[Entry]) -> Counter[Span]:
    """How many jobs each claim brought, by when it was asked and answered."""
    return Counter((entry.asked, entry.at) for entry in entries if entry.what == "claimed")


def most_in_a_window(claims: Counter[Span], seconds: float) -> int:
    """The most jobs that certainly began in one window of this length."""
    return max(
        sum(
            jobs
            for (asked, answered), jobs in claims.items()
            if asked >= begins and answered <= begins + seconds
        )
        for begins, _ in claims
    )


def used_between(claims: Counter[Span], begins: float, ends: float) -> int:
    return sum(jobs for (_, answered), jobs in claims.items() if begins <= answered <= ends)
