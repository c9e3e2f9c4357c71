"""When to try again: backoff curves as plain data.

A `Retry` is frozen on the job at enqueue, so it is data, not code: whoever
ends the attempt (the worker, or a reconciler in another program) computes the
same delay. A custom curve is therefore a list of delays, not a function, and
exceptions are named, not imported: the name of a raised exception and of each
of its base classes is compared with the names in the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.importable import importable_name

Curve = Literal["exponential", "linear", "constant", "custom"]
UniformRandom = Callable[[], float]

CURVES = get_args(Curve)
LONGEST_NAME = 512
CLASSES_KEPT = 256
"""Exceptions whose names are kept: the same ones are raised again and again."""

_kept: dict[type[BaseException], tuple[str, ...]] = {}

if TYPE_CHECKING:
    Exceptions = Iterable[type[BaseException] | str]
    """What a user may give. It is kept as the tuple of names that the policy's JSON holds."""
else:
    Exceptions = tuple[str, ...]


class Retry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How often and how soon a failed attempt is repeated.

    >>> Retry(max_attempts=5, base=1, cap=60, jitter=0).delay(3)
    4.0
    >>> Retry.linear(base=10, jitter=0).delay(3)
    30.0
    >>> Retry.custom([1, 5, 30], jitter=0).delay(9)
    30.0
    >>> Retry(on=[ConnectionError], not_on=["shop.errors.CardDeclined"]).on
    ('builtins.ConnectionError',)

    `max_attempts` counts runs, the first one too; None is for ever. `on` and `not_on` say which
    exceptions are tried again, subclasses included; `not_on` wins.
    """

    max_attempts: int | None = 5
    curve: Curve = "exponential"
    base: float = 1.0
    cap: float = 3600.0
    jitter: float = 0.25
    delays: tuple[float, ...] = ()
    on: Exceptions = ()
    not_on: Exceptions = ()

    def __post_init__(self) -> None:
        keep = msgspec.structs.force_setattr
        keep(self, "max_attempts", _checked_attempts(self.max_attempts))
        keep(self, "base", checks.seconds("retry.base", self.base))
        keep(self, "cap", checks.seconds("retry.cap", self.cap))
        keep(self, "delays", _checked_delays(self.delays, self.curve))
        jitter = checks.number(self.jitter)
        if not 0 <= jitter <= 1:
            raise BadOption("retry.jitter", "a number between 0 and 1", self.jitter)
        keep(self, "jitter", jitter)
        keep(self, "on", _checked_names("retry.on", self.on))
        keep(self, "not_on", _checked_names("retry.not_on", self.not_on))

    @classmethod
    def linear(
        cls,
        max_attempts: int | None = 5,
        base: float = 1.0,
        cap: float = 3600.0,
        jitter: float = 0.25,
        *,
        on: Exceptions = (),
        not_on: Exceptions = (),
    ) -> Retry:
        """`base`, then twice, three times `base`, up to the cap."""
        return cls(max_attempts, "linear", base, cap, jitter, (), on, not_on)

    @classmethod
    def constant(
        cls,
        max_attempts: int | None = 5,
        base: float = 1.0,
        cap: float = 3600.0,
        jitter: float = 0.25,
        *,
        on: Exceptions = (),
        not_on: Exceptions = (),
    ) -> Retry:
        """The same wait every time."""
        return cls(max_attempts, "constant", base, cap, jitter, (), on, not_on)

    @classmethod
    def custom(
        cls,
        delays: list[float],
        max_attempts: int | msgspec.UnsetType | None = msgspec.UNSET,
        cap: float = 3600.0,
        jitter: float = 0.25,
        *,
        on: Exceptions = (),
        not_on: Exceptions = (),
    ) -> Retry:
        """One wait per failure. There is one attempt more than waits, unless `max_attempts` is
        given; the last wait repeats if attempts outnumber waits."""
        waits = _checked_delays(delays, "custom")
        attempts = len(waits) + 1 if isinstance(max_attempts, msgspec.UnsetType) else max_attempts
        return cls(attempts, "custom", cap=cap, jitter=jitter, delays=waits, on=on, not_on=not_on)

    @classmethod
    def never(cls) -> Retry:
        """One attempt, and its failure is final."""
        return cls(max_attempts=1)

    def allows(self, attempts: int) -> bool:
        """Whether a job may run again after so many attempts."""
        return self.max_attempts is None or attempts < self.max_attempts

    def covers(self, names: Iterable[str]) -> bool:
        """Whether a failure is tried again, by the names of its exception and of all its base
        classes. A failure without names is no exception of the handler: it always is."""
        if not (self.on or self.not_on):
            return True
        raised = frozenset(names)
        if not raised:
            return True
        return raised.isdisjoint(self.not_on) and not (self.on and raised.isdisjoint(self.on))

    def delay(self, failures: int, uniform: UniformRandom | None = None) -> float:
        """Seconds to wait after the given number of failed attempts (1 or more).

        Jitter only ever adds: a wait is never shorter than the curve says, so
        `cap` plus jitter bounds it and a herd that failed together spreads out.
        """
        if uniform is None:
            from random import random  # only a worker needs it

            uniform = random
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


def _checked_attempts(given: object) -> int | None:
    if given is None:
        return None
    return checks.count("retry.max_attempts", given)


def _checked_names(option: str, given: object) -> tuple[str, ...]:
    expected = "exception classes or their names, such as (ConnectionError, 'shop.errors.Declined')"
    if isinstance(given, str | type | Mapping) or not isinstance(given, Iterable):
        raise BadOption(option, expected, given)
    return tuple(_checked_name(option, expected, one) for one in given)


def _checked_name(option: str, expected: str, given: object) -> str:
    if isinstance(given, type) and issubclass(given, BaseException):
        return exception_names(given)[0]
    if isinstance(given, str):
        return checks.text(option, given, LONGEST_NAME)
    raise BadOption(option, expected, given)


def exception_names(raised: type[BaseException]) -> tuple[str, ...]:
    """The names of an exception class and of its base classes as a `Retry` has them, the class
    itself first: `module.Class`, and `Class` alone, which means the class of any module.

    The module counts by the name under which other programs import it. A class of a module that no
    program can import goes by its name alone.
    """
    return _kept.get(raised) or _new_names(raised)


def _new_names(raised: type[BaseException]) -> tuple[str, ...]:
    bases = [base for base in raised.__mro__ if base is not object]
    full = [_full_name(base) for base in bases]
    if len(_kept) >= CLASSES_KEPT:
        _kept.clear()
    _kept[raised] = names = (*full, *(base.__qualname__ for base in bases))
    return names


def _full_name(raised: type) -> str:
    module = importable_name(str(raised.__module__))
    return f"{module}.{raised.__qualname__}" if module else raised.__qualname__
