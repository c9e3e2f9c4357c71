"""What a task says about limits: which buckets its jobs must pass, and at which cost.

A *bucket* is one limit at one key. Its name is `limit:key`, and `limit:` for a limit without keys.
The buckets of a job are fixed when it is enqueued, and travel as one text (`NewJob.buckets`): their
names in order, one a line. The same text names the labels that a worker must have, each as
`+label`, and the key of fairness, as `=key`. Jobs of one queue, priority and task with the same
text stand in one line. What a job costs in each of its buckets is a second text (`NewJob.costs`):
jobs of one line may cost differently. A job that costs more than a bucket ever lets pass stands
aside: stores put it in a line whose text ends with its costs, as `!costs`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks

LIMIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
LONGEST_KEY = 200
MOST_LIMITS = 8
DEEPEST_PATH = 8
MOST_UNITS = 10**15
"""What a limit may let pass, a job may cost, and a handler may take or report at once. Every store
counts sums of them in whole numbers up to `MOST_COUNTED`."""
MOST_COUNTED = 2**53 - 1
"""What is spent counts up to here, and not further: so far floating point has all whole numbers."""
MOST_WEIGHT = 1000
QUEUE_LIMIT = "queue"
"""The limit whose buckets count the running jobs of whole queues. No other may have its name."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LABEL, _FAIR, _ASIDE = "+", "=", "!"
FAIRNESS = _FAIR
"""Stands for fairness where a limit is named. No limit can have such a name."""


class Passed(NamedTuple):
    """The line of a job, and what the job costs there; None where it costs 1 in every bucket."""

    buckets: str | None
    costs: str | None = None


class Passing(msgspec.Struct, frozen=True):
    """One limit that the jobs of a task pass. `key` is the name of an argument, or a template of
    arguments such as `{org}/{team}`; None where all jobs share one bucket. `cost` is a number, or
    the name of an argument that has it. With `is_path`, the key `a/b` passes the bucket of `a` too.
    `largest` is the cost above which no job could ever pass, where that is known."""

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
        bucket = f"{self.limit}:{_checked_key(self.limit, made)}"
        return path_of(bucket) if self.is_path else (bucket,)

    def costs(self, task: str, arguments: Mapping[str, Any], given: int | None = None) -> int:
        """What the call costs. `given` was said for this call, and beats what the task says."""
        if self.cost == 1 and given is None:
            return 1
        units: object = self.cost if given is None else given
        if given is None and isinstance(self.cost, str):
            units = arguments.get(self.cost)
        what = f"task {task!r}: cost of limit {self.limit!r}"
        if not isinstance(units, int) or isinstance(units, bool) or not 1 <= units <= MOST_UNITS:
            raise BadOption(
                what, "a whole number, at least 1, known when the job is enqueued", units
            )
        if self.largest is not None and units > max(1, self.largest):
            expected = f"at most {self.largest}: the limit never lets more pass at once"
            raise BadOption(what, expected, units)
        return units


def arguments_of(key: str) -> tuple[str, ...]:
    """The arguments that a key is made of: it is the name of one, or a template of several."""
    if "{" not in key:
        return (key,)
    return tuple(name for _, name, _, _ in string.Formatter().parse(key) if name)


def check_template(what: str, key: object) -> str:
    """A key of a limit or of fairness, as it is declared: an argument's name, or a template."""
    text = checks.text(what, key, LONGEST_KEY)
    has_braces = "{" in text or "}" in text
    if _CONTROL.search(text) or (has_braces and not _is_template(text)):
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


def bucket_name(limit: object, key: object = "") -> str:
    if not isinstance(limit, str) or not LIMIT_NAME.match(limit):
        raise BadOption("name of a limit", "1 to 64 letters, digits, '_', '.' or '-'", limit)
    return f"{limit}:{_checked_key(limit, key)}"


def require_own_name(name: object) -> None:
    """Limits of users may not be taken for the totals of queues."""
    bucket_name(name)
    if name == QUEUE_LIMIT:
        expected = "another than 'queue', which counts whole queues: pause or tune the queue itself"
        raise BadOption("name of a limit", expected, name)


def _checked_key(limit: str, key: object) -> str:
    """A key that every store can keep. Takes travel to the store in batches: one that the store
    refuses would fail those of other jobs."""
    if isinstance(key, str) and len(key) <= LONGEST_KEY:
        if key.isascii() and key.isprintable():  # nearly all keys, and sooner known
            return key
        if not _CONTROL.search(key) and checks.is_encodable(key):
            return key
    expected = f"at most {LONGEST_KEY} characters of text, none of them a control character"
    raise BadOption(f"key of limit {limit!r}", expected, key)


def path_of(bucket: str) -> tuple[str, ...]:
    """The buckets that lead to this one, and itself: for `tokens:a/b` those of `a` and `a/b`."""
    limit, key = split_bucket(bucket)
    parts = key.split("/")
    if len(parts) > DEEPEST_PATH or (key and not all(parts)):
        expected = (
            f"a path such as 'org/team', at most {DEEPEST_PATH} names deep, none of them empty"
        )
        raise BadOption(f"key of limit {limit!r}", expected, key)
    return (*steps_to(bucket), bucket)


def steps_to(bucket: str) -> tuple[str, ...]:
    """The buckets that lead to this one by its path, without a check of the path."""
    parts = bucket.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts)))


def total_name(queue: str) -> str:
    """The bucket that counts all running jobs of a queue."""
    return f"{QUEUE_LIMIT}:{queue}"


def is_total(bucket: str) -> bool:
    return bucket.startswith(f"{QUEUE_LIMIT}:")


def split_bucket(bucket: str) -> tuple[str, str]:
    """The limit and the key of a bucket."""
    limit, _, key = bucket.partition(":")
    return limit, key


def joined(
    buckets: Iterable[str], *, labels: Iterable[str] = (), fair: str | None = None
) -> str | None:
    """The line of a job as one text; None for a job that needs none."""
    lines = sorted(set(buckets))
    lines += sorted({_LABEL + _checked_label(label) for label in labels})
    if fair is not None:
        lines.append(_FAIR + _checked_key(_FAIR, fair))
    return "\n".join(lines) or None


def _checked_label(label: object) -> str:
    if isinstance(label, str) and LIMIT_NAME.match(label):
        return label
    raise BadOption("a label", "1 to 64 letters, digits, '_', '.' or '-'", label)


def check_labels(what: str, given: object) -> frozenset[str]:
    """Labels as a task requires them, or as a worker has them."""
    expected = "labels, such as {'gpu', 'eu'}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadOption(what, expected, given)
    return frozenset(_checked_label(label) for label in given)


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


def joined_costs(units: Mapping[str, int]) -> str | None:
    """Costs by bucket as one text, in the order of the buckets' names; None if all are 1."""
    if all(cost == 1 for cost in units.values()):
        return None
    return ",".join(str(units[bucket]) for bucket in sorted(units))


def parted(buckets: str | None) -> tuple[str, ...]:
    """The buckets of a job from the text of its line."""
    if not buckets:
        return ()
    if _LABEL not in buckets and _FAIR not in buckets and _ASIDE not in buckets:
        return tuple(buckets.split("\n"))
    return tuple(line for line in buckets.split("\n") if line[0] not in (_LABEL, _FAIR, _ASIDE))


@lru_cache(maxsize=1024)
def parted_costs(costs: str) -> tuple[int, ...]:
    """The costs of a job, in the order of its buckets."""
    return tuple(map(int, costs.split(",")))


def costs_in(buckets: str | None, costs: str | None) -> dict[str, int]:
    """What a job costs, by bucket."""
    names = parted(buckets)
    if costs is None:
        return dict.fromkeys(names, 1)
    return dict(zip(names, parted_costs(costs), strict=True))


def with_bucket(buckets: str | None, costs: str | None, added: str) -> Passed:
    """A receipt that names one more bucket, at the cost of one permit."""
    units = costs_in(buckets, costs) | {added: 1}
    return Passed(joined(units), joined_costs(units))


def labels_in(buckets: str | None) -> frozenset[str]:
    """The labels that a worker needs for the jobs of a line."""
    if not buckets or _LABEL not in buckets:
        return frozenset()
    return frozenset(line[1:] for line in buckets.split("\n") if line.startswith(_LABEL))


def fair_in(buckets: str | None) -> str | None:
    """The key of fairness of a line."""
    if not buckets or _FAIR not in buckets:
        return None
    return next((line[1:] for line in buckets.split("\n") if line.startswith(_FAIR)), None)


def aside(buckets: str, costs: str) -> str:
    """The line of jobs that stand aside because of these costs. All of them cost the same, so that
    none of them keeps another one waiting that could begin."""
    return f"{buckets}\n{_ASIDE}{costs}"


def without_aside(buckets: str) -> str:
    """The line that a job has left to stand aside; any other line as it is."""
    return buckets.partition(f"\n{_ASIDE}")[0]


def is_aside(buckets: str) -> bool:
    return f"\n{_ASIDE}" in buckets


def parents_in(names: Sequence[str]) -> frozenset[str]:
    """Those of a job's buckets, which are in order, that lead to others of them."""
    return frozenset(one for one, following in pairwise(names) if following.startswith(one + "/"))


def bucket_of(buckets: str | None, limit: str) -> str:
    """The bucket of this limit that a job passes: the last one of a path. For a job that does not
    pass the limit, the bucket without a key."""
    for bucket in reversed(parted(buckets)):
        if split_bucket(bucket)[0] == limit:
            return bucket
    return bucket_name(limit)


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
