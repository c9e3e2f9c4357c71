"""When to try again: backoff curves as plain data.

A `Retry` is frozen on the job at enqueue, so it is data, not code: whoever
ends the attempt (the worker, or a reconciler in another program) computes the
same delay. A custom curve is therefore a list of delays, not a function.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Literal

import msgspec

from holdfast.errors import BadOption

Curve = Literal["exponential", "linear", "constant", "custom"]
UniformRandom = Callable[[], float]

LONGEST_WAIT = 36_500 * 86_400.0  # a hundred years: every store's clock can count that far


class Retry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How often and how soon a failed attempt is repeated.

    >>> Retry(max_attempts=5, base=1, cap=60, jitter=0).delay(3)
    4.0
    >>> Retry.linear(base=10, jitter=0).delay(3)
    30.0
    >>> Retry.custom([1, 5, 30], jitter=0).delay(9)
    30.0
    """

    max_attempts: int = 5
    curve: Curve = "exponential"
    base: float = 1.0
    cap: float = 3600.0
    jitter: float = 0.25
    delays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _require("retry.max_attempts", "at least 1", self.max_attempts, self.max_attempts >= 1)
        _require("retry.base", "a number of seconds, 0 or more", self.base, _is_wait(self.base))
        _require("retry.cap", "seconds between 0 and 100 years", self.cap, _is_cap(self.cap))
        _require("retry.jitter", "between 0 and 1", self.jitter, 0 <= self.jitter <= 1)
        _require(
            "retry.delays",
            "at least one number of seconds for a custom curve, and none for another",
            self.delays,
            all(map(_is_wait, self.delays)) and bool(self.delays) == (self.curve == "custom"),
        )

    @classmethod
    def linear(
        cls, max_attempts: int = 5, base: float = 1.0, cap: float = 3600.0, jitter: float = 0.25
    ) -> Retry:
        """`base`, then twice, three times `base`, up to the cap."""
        return cls(max_attempts, "linear", base, cap, jitter)

    @classmethod
    def constant(
        cls, max_attempts: int = 5, base: float = 1.0, cap: float = 3600.0, jitter: float = 0.25
    ) -> Retry:
        """The same wait every time."""
        return cls(max_attempts, "constant", base, cap, jitter)

    @classmethod
    def custom(
        cls,
        delays: list[float],
        max_attempts: int | None = None,
        cap: float = 3600.0,
        jitter: float = 0.25,
    ) -> Retry:
        """One wait per failure; the last one repeats if attempts outnumber waits."""
        attempts = len(delays) + 1 if max_attempts is None else max_attempts
        return cls(attempts, "custom", cap=cap, jitter=jitter, delays=tuple(delays))

    @classmethod
    def never(cls) -> Retry:
        """One attempt, and its failure is final."""
        return cls(max_attempts=1)

    def delay(self, failures: int, uniform: UniformRandom = random.random) -> float:
        """Seconds to wait after the given number of failed attempts (1 or more).

        Jitter only ever adds: a wait is never shorter than the curve says, so
        `cap` plus jitter bounds it and a herd that failed together spreads out.
        """
        wait = min(self.cap, self._plain(max(1, failures)))
        return wait * (1 + self.jitter * uniform())

    def _plain(self, failures: int) -> float:
        match self.curve:
            case "exponential":
                # 2 ** 1000 would overflow a float long after any cap is reached.
                return self.base * 2.0 ** min(failures - 1, 500)
            case "linear":
                return self.base * failures
            case "constant":
                return self.base
            case "custom":
                return self.delays[min(failures, len(self.delays)) - 1]


def _is_wait(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds >= 0


def _is_cap(seconds: float) -> bool:
    return _is_wait(seconds) and seconds <= LONGEST_WAIT


def _require(option: str, expected: str, got: object, holds: bool) -> None:
    if not holds:
        raise BadOption(option, expected, got)
