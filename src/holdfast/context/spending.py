"""What a handler asks of limits while it runs, and what it tells them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from holdfast.context.link import pause_in_thread
from holdfast.job import checks
from holdfast.job.line_rule import Passing
from holdfast.job.passing import MOST_UNITS, bucket_name
from holdfast.job.requests import Answer, PermitsTaken, ReportSpend, TakePermits

if TYPE_CHECKING:
    from holdfast.context.context import Context

LONGEST_WAIT = 5.0
"""Seconds after which a handler asks again, whatever it was told: somebody may open the limit."""


class Spending:
    """The part of a `Context` that takes of limits beside what its job passes, and settles budgets.
    A limit is what `app.limit` gave, or its name."""

    __slots__ = ()

    async def take(self, limit: Passing | str, units: int = 1, *, key: str | None = None) -> None:
        """Wait until a rate or a budget lets so many units pass, and take them: for calls that a
        handler makes one after the other. Without `key` they are taken from the bucket that the job
        passes. Nothing gives them back."""
        request = _taking(limit, units, key)
        wait = _wait(await self._context.ask(request))
        while wait is not None:
            await asyncio.sleep(wait)
            wait = _wait(await self._context.ask(request))

    def take_sync(self, limit: Passing | str, units: int = 1, *, key: str | None = None) -> None:
        """`take` for plain functions, in a thread or a process."""
        request = _taking(limit, units, key)
        while (wait := _wait(self._context.ask_sync(request))) is not None:
            pause_in_thread(self._context.check_cancelled, wait)

    async def spent(self, limit: Passing | str, units: int) -> None:
        """Say that so many units of a budget were spent, besides those said before. The end of the
        attempt settles what was reserved with the sum, and refunds the rest, also after a crash.
        Many calls share a round trip. Raises `AttemptLost` when the attempt is no longer this
        worker's own."""
        await self._context.ask(_spending(limit, units))

    def spent_sync(self, limit: Passing | str, units: int) -> None:
        """`spent` for plain functions, in a thread or a process."""
        self._context.ask_sync(_spending(limit, units))

    @property
    def _context(self) -> Context:
        return cast("Context", self)  # nothing else has this base


def _taking(limit: Passing | str, units: int, key: str | None) -> TakePermits:
    name = _name("take", limit)
    checks.count("take(units)", units, most=MOST_UNITS)
    if key is not None:
        bucket_name(name, checks.shown_text("take(key=…)", key))
    return TakePermits(name, units, key)


def _spending(limit: Passing | str, units: int) -> ReportSpend:
    return ReportSpend(
        _name("spent", limit), checks.count("spent(units)", units, least=0, most=MOST_UNITS)
    )


def _name(what: str, limit: Passing | str) -> str:
    name = limit.limit if isinstance(limit, Passing) else limit
    bucket_name(checks.shown_text(f"limit of {what}", name))
    return name


def _wait(answer: Answer) -> float | None:
    """Seconds until the next try; None if the permits are taken."""
    assert isinstance(answer, PermitsTaken)
    return None if answer.wait is None else min(max(answer.wait, 0.001), LONGEST_WAIT)
