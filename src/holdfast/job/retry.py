"""When to try again: backoff curves as plain data.

A `Retry` is frozen on the job at enqueue, so it is data, not code: whoever
ends the attempt (the worker, or a reconciler in another program) computes the
same delay. A custom curve is therefore a list of delays, not a function.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks

Curve = Literal["exponential", "linear", "constant", "custom"]
UniformRandom = Callable[[], float]

CURVES = get_args(Curve)


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
        keep = msgspec.structs.force_setattr
        keep(self, "max_attempts", checks.count("retry.max_attempts", self.max_attempts))
        keep(self, "base", checks.seconds("retry.base", self.base))
        keep(self, "cap", checks.seconds("retry.cap", self.cap))
        keep(self, "delays", _checked_delays(self.delays, self.curve))
        jitter = checks.number(self.jitter)
        if not 0 <= jitter <= 1:
            raise BadOption("retry.jitter", "a number between 0 and 1", self.jitter)
        keep(self, "jitter", jitter)

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
        waits = _checked_delays(delays, "custom")
        attempts = len(waits) + 1 if max_attempts is None else max_attempts
        return cls(attempts, "custom", cap=cap, jitter=jitter, delays=waits)

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


def _checked_delays(delays: object, curve: object) -> tuple[float, ...]:
    if curve not in CURVES:
        raise BadOption("retry.curve", f"one of {', '.join(CURVES)}", curve)
    if not isinstance(delays, tuple | list) or bool(delays) != (curve == "custom"):
        expected = "a list of seconds for a custom curve, and none for another"
        raise BadOption("retry.delays", expected, delays)
    return tuple(checks.seconds("retry.delays", delay) for delay in delays)
