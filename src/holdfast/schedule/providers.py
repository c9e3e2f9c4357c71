"""Providers of scopes and planner hooks: what this program has registered, and their answers.

A provider may be a coroutine function, an async generator, a plain function or a plain generator.
All that a look asks of them is bounded: in time, in the number of values, and in how often one that
fails is asked (`agenda.py`). What exceeds a bound is an error of the schedule.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

from holdfast.errors import BadOption
from holdfast.schedule.bounded_calls import Asking, TooSlow

PAGE = 1_000
LIMIT = 30.0
MOST_SCOPES = 100_000
SCOPE_LENGTH = 256
MOST_PLANS = 10_000

ScopeProvider = Callable[[], Any]
"""Gives the scopes of a schedule: text, in any order, each once."""
Planner = Callable[[str, datetime, datetime], Any]
"""`planner(scope, after, now)` gives plan times later than `after`, up to `now`."""


class Providers:
    """What this program has registered, by name."""

    def __init__(self, *, page: int = PAGE, limit: float = LIMIT) -> None:
        self.scopes: dict[str, ScopeProvider] = {}
        self.planners: dict[str, Planner] = {}
        self._page = page
        self._limit = limit
        self._asking = Asking(limit)

    @property
    def slow(self) -> int:
        """How many looks wait for an answer that does not come at once."""
        return self._asking.slow

    def knows(self, scopes: str | None, planner: str | None) -> bool:
        return (scopes is None or scopes in self.scopes) and (
            planner is None or planner in self.planners
        )

    async def pages(self, name: str) -> AsyncIterator[list[str]]:
        """The scopes in pages, none empty, each scope once."""
        what = f"scope provider {name!r}"
        given = await self._asking.ask(what, self.scopes[name], most=MOST_SCOPES)
        scopes = list(dict.fromkeys(_checked(what, scope) for scope in given))
        for first in range(0, len(scopes), self._page):
            yield scopes[first : first + self._page]

    async def planned(
        self, name: str, scope: str, after: datetime, now: datetime
    ) -> list[datetime]:
        """The plan times that a planner gives for one scope, of the time it was asked about."""
        what = f"planner {name!r}"
        given = await self._asking.ask(
            what, self.planners[name], scope, after, now, most=MOST_PLANS
        )
        return [moment for moment in map(_aware, given) if after < moment <= now]

    def patience(self) -> Patience:
        """How long one look may go on asking planners, scope by scope."""
        return Patience(4 * self._limit)


class Patience:
    """Is at its end once, and stays so."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def check(self, planner: str) -> None:
        if time.monotonic() > self._until:
            raise TooSlow(f"planner {planner!r}, asked for one scope after another,", self._seconds)


def _checked(what: str, scope: object) -> str:
    if not isinstance(scope, str) or not 0 < len(scope) <= SCOPE_LENGTH or "\x00" in scope:
        raise BadOption(f"{what}: scope", f"text of 1 to {SCOPE_LENGTH} characters", scope)
    return scope


def _aware(moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise BadOption("plan time", "a datetime with a time zone", moment)
    return moment
