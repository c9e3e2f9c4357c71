"""What a task says about limits: which buckets its jobs must pass.

A *bucket* is one limit at one key. Its name is `limit:key`, and `limit:` for a limit without keys.
The buckets of a job are fixed when it is enqueued, and travel as one text (`NewJob.buckets`): their
names in order, one a line. Jobs of one queue, priority and task with the same text stand in one
line.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import BadOption

LIMIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
LONGEST_KEY = 200
MOST_LIMITS = 8
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Passing(msgspec.Struct, frozen=True):
    """One limit that the jobs of a task pass. `key` is the name of an argument, or a template of
    arguments such as `{org}/{team}`; None where all jobs share one bucket."""

    limit: str
    key: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that the key is made of."""
        if self.key is None:
            return ()
        if "{" not in self.key:
            return (self.key,)
        return tuple(name for _, name, _, _ in string.Formatter().parse(self.key) if name)

    def bucket(self, task: str, arguments: Mapping[str, Any]) -> str:
        """The name of the bucket that a call with these arguments passes."""
        values = {name: self._value(task, name, arguments) for name in self.arguments}
        if self.key is None:
            return bucket_name(self.limit)
        made = self.key.format_map(values) if "{" in self.key else values[self.key]
        return bucket_name(self.limit, made)

    def _value(self, task: str, name: str, arguments: Mapping[str, Any]) -> str:
        """A call without the value is refused: it must never pass by the limit."""
        value = arguments.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
        what = f"task {task!r}: argument {name!r}, the key of limit {self.limit!r}"
        raise BadOption(what, "a text or a whole number, known when the job is enqueued", value)


def bucket_name(limit: str, key: str = "") -> str:
    if not LIMIT_NAME.match(limit):
        raise BadOption("name of a limit", "1 to 64 letters, digits, '_', '.' or '-'", limit)
    if len(key) > LONGEST_KEY or _CONTROL.search(key):
        expected = f"at most {LONGEST_KEY} characters, none of them a control character"
        raise BadOption(f"key of limit {limit!r}", expected, key)
    return f"{limit}:{key}"


def split_bucket(bucket: str) -> tuple[str, str]:
    """The limit and the key of a bucket."""
    limit, _, key = bucket.partition(":")
    return limit, key


def joined(buckets: Iterable[str]) -> str | None:
    """The buckets of a job as one text; None for a job without limits."""
    return "\n".join(sorted(set(buckets))) or None


def buckets_of(task: str, limits: Iterable[Passing], arguments: Mapping[str, Any]) -> str | None:
    """The buckets that a call with these arguments passes, as one text."""
    return joined(one.bucket(task, arguments) for one in limits)


def parted(buckets: str | None) -> tuple[str, ...]:
    """The buckets of a job from their text."""
    return tuple(buckets.split("\n")) if buckets else ()


def bucket_of(buckets: str | None, limit: str) -> str:
    """The bucket of this limit that a job passes. For a job that does not pass the limit, the
    bucket without a key."""
    for bucket in parted(buckets):
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
