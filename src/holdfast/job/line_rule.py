"""What a task says about limits: from the arguments of a call to the line of its job.

The buckets, costs and labels of a job are fixed when it is enqueued. `passing.py` has their texts.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.passing import (
    CONTROL,
    LONGEST_KEY,
    MOST_UNITS,
    Passed,
    checked_key,
    joined,
    joined_costs,
    path_of,
)

MOST_LIMITS = 8
FAIRNESS = "="
"""Stands for fairness where a limit is named. No limit can have such a name."""


class Passing(msgspec.Struct, frozen=True):
    """One limit that the jobs of a task pass. `key` is the name of an argument, or a template of
    arguments such as `{org}/{team}`; None where all jobs share one bucket. `cost` is a number, or
    the name of an argument that has it. With `is_path`, the key `a/b` passes the bucket of `a` too.
    `largest` is the cost above which no job could ever pass, where that is known; 0 of a limit that
    is shut, where jobs of any cost wait until it is opened."""

    limit: str
    key: str | None = None
    cost: int | str = 1
    is_path: bool = False
    largest: int | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that the key and the cost are made of."""
        return (
            (*self._key_arguments, self.cost) if isinstance(self.cost, str) else self._key_arguments
        )

    @property
    def _key_arguments(self) -> tuple[str, ...]:
        return () if self.key is None else arguments_of(self.key)

    def passes(self, task: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the buckets that a call with these arguments passes."""
        if self.key is None:
            return (f"{self.limit}:",)
        made = made_key(task, self.limit, self.key, arguments)
        bucket = f"{self.limit}:{checked_key(self.limit, made)}"
        return path_of(bucket) if self.is_path else (bucket,)

    def costs(self, task: str, arguments: Mapping[str, Any], given: int | None = None) -> int:
        """What the call costs. `given` was said for this call, and beats what the task says."""
        if self.cost == 1 and given is None:
            return 1
        units: object = self.cost if given is None else given
        if given is None and isinstance(self.cost, str):
            units = arguments.get(self.cost)
        return self._checked(self._cost_of(task), units)

    def check_stated_cost(
        self, task: str, given: Mapping[str, object], defaults: Mapping[str, object]
    ) -> None:
        """Refuse a cost that the code says and that could never pass: the first call would be
        refused. `given` are costs by limit that were said for some calls, `defaults` those of the
        arguments."""
        what = self._cost_of(task)
        if self.limit in given:
            self._checked(what, given[self.limit])
        elif not isinstance(self.cost, str):
            self.require_passable(what, self.cost)
        elif type(default := defaults.get(self.cost)) is int:
            self.require_passable(f"{what}, the default of {self.cost!r},", default)

    def _cost_of(self, task: str) -> str:
        return f"task {task!r}: cost of limit {self.limit!r}"

    def _checked(self, what: str, units: object) -> int:
        if not isinstance(units, int) or isinstance(units, bool) or not 1 <= units <= MOST_UNITS:
            raise BadOption(
                what, "a whole number, at least 1, known when the job is enqueued", units
            )
        self.require_passable(what, units)
        return units

    def require_passable(self, what: str, units: int) -> None:
        if self.largest and units > self.largest:
            expected = f"at most {self.largest}: the limit never lets more pass at once"
            raise BadOption(what, expected, units)


class LineRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the line of a job is made from the arguments of its call: the limits that it passes, what
    it `cost`s there if that is said for this call alone, its key of fairness with its `weight`, and
    the labels that it `requires` of a worker."""

    limits: tuple[Passing, ...] = ()
    cost: Mapping[str, int] = {}
    fair: str | None = None
    weight: int = 1
    requires: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether jobs stand in a line at all."""
        return bool(self.limits or self.fair or self.requires)

    @property
    def arguments(self) -> Iterator[tuple[str, str]]:
        """The arguments that a line is made of, each with what it is for."""
        for one in self.limits:
            for name in one.arguments:
                if name != one.cost or one.limit not in self.cost:
                    yield f"key or cost of limit {one.limit!r}", name
        for name in () if self.fair is None else arguments_of(self.fair):
            yield "fair", name

    def passed(self, task: str, arguments: Mapping[str, Any]) -> Passed:
        """The line in which a call with these arguments stands, and what it costs there."""
        units: dict[str, int] = {}
        for one in self.limits:
            cost = one.costs(task, arguments, self.cost.get(one.limit))
            for bucket in one.passes(task, arguments):
                units[bucket] = cost
        if len(units) == 1 and self.fair is None and not self.requires:
            [(bucket, cost)] = units.items()  # nearly all jobs with limits have one
            return Passed(bucket, None if cost == 1 else str(cost))
        fair = self.fair and made_key(task, FAIRNESS, self.fair, arguments)
        return Passed(joined(units, labels=self.requires, fair=fair), joined_costs(units))


def made_key(task: str, limit: str, key: str, arguments: Mapping[str, Any]) -> str:
    """The key of a call with these arguments, for a limit or for fairness."""
    if "{" not in key:
        return _key_value(task, limit, key, arguments)
    values = {name: _key_value(task, limit, name, arguments) for name in arguments_of(key)}
    if "/" in key:
        _check_steps(task, limit, key, values)
    return key.format_map(values)


def _check_steps(task: str, limit: str, key: str, values: Mapping[str, str]) -> None:
    """Each value is one step of the path: else org `a/b` with team `c` would have the bucket of
    org `a` with team `b/c`."""
    for name, value in values.items():
        if "/" in value:
            what = f"task {task!r}: argument {name!r} in the key {key!r} {_of(limit)}"
            raise BadOption(what, "a text without '/', which parts the steps of the path", value)


def _key_value(task: str, limit: str, name: str, arguments: Mapping[str, Any]) -> str:
    """A call without the value is refused: it must never pass by the limit."""
    value = arguments.get(name)
    if type(value) is int or (type(value) is str and value):  # as JSON brings it: never a bool
        return str(value)
    what = f"task {task!r}: argument {name!r}, the key {_of(limit)}"
    raise BadOption(what, "a text or a whole number, known when the job is enqueued", value)


def _of(limit: str) -> str:
    return "of fairness" if limit == FAIRNESS else f"of limit {limit!r}"


def arguments_of(key: str) -> tuple[str, ...]:
    """The arguments that a key is made of: it is the name of one, or a template of several."""
    if "{" not in key:
        return (key,)
    return tuple(name for _, name, _, _ in string.Formatter().parse(key) if name)


def check_template(what: str, key: object) -> str:
    """A key of a limit or of fairness, as it is declared: an argument's name, or a template."""
    text = checks.text(what, key, LONGEST_KEY)
    has_braces = "{" in text or "}" in text
    if CONTROL.search(text) or (has_braces and not _is_template(text)):
        expected = "an argument's name, or a template of plain names such as '{org}/{team}'"
        raise BadOption(what, expected, key)
    return text


def _is_template(text: str) -> bool:
    """Whether each field is a plain `{name}`. A conversion or a format could name arguments that
    nobody has checked, and a template without a field would be one bucket for all."""
    try:
        fields = [field for field in string.Formatter().parse(text) if field[1] is not None]
    except ValueError:  # a brace that stands alone
        return False
    return bool(fields) and all(
        (name or "").isidentifier() and not form and conversion is None
        for _, name, form, conversion in fields
    )


def check_limits(given: object) -> tuple[Passing, ...]:
    """The limits of a task, each once."""
    expected = "a list of limits, as app.limit(…) and its by(…) give them"
    if isinstance(given, str | Passing) or not isinstance(given, Sequence):
        raise BadOption("limits", expected, given)
    for one in given:
        if not isinstance(one, Passing):
            raise BadOption("limits", expected, one)
    if len({one.limit for one in given}) < len(given):
        raise BadOption("limits", "each limit once", [one.limit for one in given])
    if len(given) > MOST_LIMITS:
        raise BadOption("limits", f"at most {MOST_LIMITS}", len(given))
    return tuple(given)
