"""What limits promise, kept as a list of what happened.

A book knows of one bucket who runs, what has begun and when, and what was spent. It repeats no
store's arithmetic: of a rate it asks how much began in each window that there ever was. So it says
how much may begin at most, and how much must be able to begin; the two differ by the 64th part of
a window, which stores count together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from holdfast.job.ids import JobId
from holdfast.limits.model import Budget, Concurrency, Rate, Settings

SECOND = 1_000_000
NO_BOUND = 10**9


@dataclass
class Book:
    """One bucket. Times are microseconds. `lenient`: it is a parent of others without settings of
    its own, which counts and holds nobody up."""

    name: str
    settings: Settings
    lenient: bool = False
    held: dict[JobId, int] = field(default_factory=dict)
    begun: list[tuple[int, int, JobId | None]] = field(default_factory=list)
    spent: int = 0
    adjusted: int = 0
    since: int = 0
    shut_until: int = 0

    @property
    def limit(self) -> str:
        return self.name.split(":")[0]

    @property
    def reserved(self) -> int:
        return sum(self.held.values())

    @property
    def largest(self) -> int:
        """The largest cost that ever passes: in this period, of a budget that was topped up."""
        topped_up = max(0, -self.spent) if isinstance(self.settings, Budget) else 0
        return self.settings.largest + topped_up

    def at_most(self, now: int) -> int:
        """More than so much must not begin."""
        return 0 if self.shut_until > now else self._room(now, 0)

    def at_least(self, now: int) -> int:
        """So much must be able to begin."""
        return 0 if self.shut_until > now else self._room(now, 2)

    def _room(self, now: int, slices: int) -> int:
        match self.settings:
            case _ if self.lenient:
                return NO_BOUND
            case Concurrency(most=most):
                return most - self.reserved
            case Budget(hard=hard):
                self.roll(now)
                return hard - self.spent - self.reserved
            case Rate(most=most, per=per, burst=None):
                earliest = now - round(per * SECOND) * (64 + slices) // 64
                return most - sum(cost for at, cost, _ in self.begun if at >= earliest)
            case Rate(most=most, per=per, burst=burst) as rate:
                grown = Fraction(most, rate.per_micros)
                return (burst or 0) - self._saved_up(now, grown)

    def _saved_up(self, now: int, grown: Fraction) -> int:
        """By how much all that began since some moment exceeds what has grown since, at most."""
        used, total = Fraction(0), 0
        for at, cost, _ in reversed(self.begun):
            total += cost
            used = max(used, total - grown * (now - at))
        return -((-used) // 1)

    def roll(self, now: int) -> None:
        """A period that is over is forgotten."""
        if isinstance(self.settings, Budget):
            start = self.settings.period(now).start
            if start != self.since:
                self.spent, self.adjusted, self.since = 0, 0, start

    def begin(self, job: JobId, cost: int, now: int) -> None:
        self.roll(now)
        self.held[job] = cost
        self.begun.append((now, cost, job))

    def take(self, cost: int, now: int) -> None:
        """From within a handler: nothing is held."""
        self.roll(now)
        self.begun.append((now, cost, None))
        self.spent += cost

    def end(self, job: JobId, settled: int, now: int, *, begun: bool) -> None:
        self.roll(now)
        del self.held[job]
        self.spent += settled
        if not begun:
            last = max(n for n, (_, _, who) in enumerate(self.begun) if who == job)
            del self.begun[last]

    def keeps_its_promise(self, now: int) -> bool:
        return self.at_most(now) >= 0
