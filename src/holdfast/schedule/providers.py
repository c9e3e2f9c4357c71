"""Scope providers and planners: the functions that this program registered, and their answers.

A function may be a coroutine function, an async generator, a plain function or a plain generator.
Every question to it is bounded: in time and in the number of values (`bounded_calls.py`), and in
how often a failing one is asked (`Entry.next_evaluation` in `agenda.py`). An answer beyond a bound
is an error of the schedule.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

from holdfast.errors import BadOption
from holdfast.schedule.bounded_calls import BoundedCalls, TooSlow

SCOPES_PAGE = 1_000
ANSWER_SECONDS = 30.0
ANSWERS_PER_EVALUATION = 4
"""All planner calls of one evaluation together may take as long as this many single answers."""
MOST_SCOPES = 100_000
SCOPE_LENGTH = 256
MOST_PLANS = 10_000

ScopeProvider = Callable[[], Any]
"""Gives the scopes of a schedule: text, in any order, each once."""
Planner = Callable[[str, datetime, datetime], Any]
"""`planner(scope, after, now)` gives plan times later than `after`, up to `now`."""


class Providers:
    """What this program has registered, by name."""

    def __init__(self, *, page: int = SCOPES_PAGE, limit: float = ANSWER_SECONDS) -> None:
        self.scopes: dict[str, ScopeProvider] = {}
        self.planners: dict[str, Planner] = {}
        self._page = page
        self._limit = limit
        self._calls = BoundedCalls(limit)

    @property
    def slow(self) -> int:
        """How many evaluations wait for a slow answer at this moment."""
        return self._calls.slow

    def missing(self, scopes: str | None, planner: str | None) -> list[str]:
        """Which of the two this program has not registered, as words for people."""
        missing: list[str] = []
        if scopes is not None and scopes not in self.scopes:
            missing.append(f"scope provider {scopes!r}")
        if planner is not None and planner not in self.planners:
            missing.append(f"planner {planner!r}")
        return missing

    async def pages(self, name: str) -> AsyncIterator[list[str]]:
        """The scopes in pages: no page is empty, and no scope comes twice."""
        what = f"scope provider {name!r}"
        given = await self._calls.values(what, self.scopes[name], most=MOST_SCOPES)
        scopes = list(dict.fromkeys(_checked(what, scope) for scope in given))
        for first in range(0, len(scopes), self._page):
            yield scopes[first : first + self._page]

    async def plan_times(
        self, name: str, scope: str, after: datetime, now: datetime
    ) -> list[datetime]:
        """The plan times that a planner gives for one scope. Times outside of what it was asked
        for are dropped."""
        what, planner = f"planner {name!r}", self.planners[name]
        given = await self._calls.values(what, planner, scope, after, now, most=MOST_PLANS)
        return [moment for moment in map(_aware, given) if after < moment <= now]

    def patience(self) -> Patience:
        """How long one evaluation may go on asking planners, scope by scope."""
        return Patience(ANSWERS_PER_EVALUATION * self._limit)


class Patience:
    """Raises TooSlow once its time is over."""

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
