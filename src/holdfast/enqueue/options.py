"""The options of one enqueue: checked early, and frozen.

A task carries defaults, and `using(...)` replaces some of them. Every option is checked before
anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict
from uuid import UUID

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.checks import check_job_id, check_name, check_priority
from holdfast.job.headers import encode_headers
from holdfast.job.line_rule import LineRule, Passing, check_limits, check_template
from holdfast.job.passing import MOST_WEIGHT, check_labels
from holdfast.job.policy import Policy, Retention
from holdfast.job.retry import Retry
from holdfast.job.unique import UniqueBy

Seconds = float | timedelta


class EnqueueOptions(TypedDict, total=False):
    """Every option that `@app.task` and `using` take."""

    queue: str
    priority: int
    delay: Seconds
    run_at: datetime
    deadline: datetime | Seconds | None
    start_by: datetime | Seconds | None
    timeout: Seconds | None
    retry: Retry | int
    max_crashes: int
    unique: str | UniqueBy | None
    tags: Sequence[str]
    headers: Mapping[str, str]
    retention: Retention
    keep_result: bool
    limits: Sequence[Passing]
    cost: Mapping[str, int]
    fair: str | None
    weight: int
    requires: Iterable[str]
    id: str | UUID
    connection: object


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Checked options. `using` gives a copy with some replaced.

    `connection` is UNSET unless it was given: then the enqueue joins the ambient transaction, if
    there is one. None means that it joins none.
    """

    queue: str = "default"
    priority: int = 0
    delay: Seconds | None = None
    run_at: datetime | None = None
    deadline: datetime | Seconds | None = None
    start_by: datetime | Seconds | None = None
    timeout: Seconds | None = None
    retry: Retry = Retry()
    max_crashes: int = 3
    unique: str | UniqueBy | None = None
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    retention: Retention = Retention()
    keep_result: bool = True
    limits: tuple[Passing, ...] = ()
    cost: Mapping[str, int] = {}
    fair: str | None = None
    weight: int = 1
    requires: frozenset[str] = frozenset()
    id: str | UUID | None = None
    connection: Any = msgspec.UNSET

    def using(self, given: Mapping[str, Any]) -> JobOptions:
        unknown = set(given) - set(self.__struct_fields__)
        if unknown:
            known = ", ".join(sorted(self.__struct_fields__))
            raise BadOption("option", f"one of {known}", ", ".join(sorted(unknown)))
        merged = msgspec.structs.replace(self, **given)
        if "retry" in given:
            msgspec.structs.force_setattr(merged, "retry", _retry(given["retry"]))
        if "tags" in given:
            tags = checks.texts("tags", given["tags"], 128, "tag")
            msgspec.structs.force_setattr(merged, "tags", tags)
        if "limits" in given:
            msgspec.structs.force_setattr(merged, "limits", check_limits(given["limits"]))
        if "requires" in given:
            labels = check_labels("requires", given["requires"])
            msgspec.structs.force_setattr(merged, "requires", labels)
        merged._check()
        return merged

    def _check(self) -> None:
        check_name("queue", self.queue)
        check_priority(self.priority)
        _check_times(self)
        if self.id is not None:
            check_job_id(self.id)
        if isinstance(self.unique, str):
            UniqueBy(key=self.unique)
        elif self.unique is not None and not isinstance(self.unique, UniqueBy):
            raise BadOption("unique", "a key or a UniqueBy", self.unique)
        self.policy()
        if isinstance(self.unique, UniqueBy) and self.unique.period is not None:
            _check_period(checks.wait("unique period", self.unique.period), self.retention)
        self.headers_json()
        if self.cost != {}:
            self._check_cost()
        if self.fair is not None:
            check_template("fair", self.fair)
        checks.count("weight", self.weight, most=MOST_WEIGHT)

    def _check_cost(self) -> None:
        """What single limits cost is checked with the call."""
        expected = "units by the name of a limit, such as {'tokens': 1200}"
        checks.kind("cost", self.cost, Mapping, expected)
        passed = [one.limit for one in self.limits]
        for limit in self.cost:
            if limit not in passed:
                expected = f"units of limits that the task passes: {', '.join(passed) or 'none'}"
                raise BadOption("cost", expected, limit)

    @property
    def line(self) -> LineRule:
        """In which line its jobs stand, if in any."""
        labels = tuple(sorted(self.requires))
        return LineRule(self.limits, self.cost, self.fair, self.weight, labels)

    def policy(self) -> Policy:
        return Policy(
            retry=self.retry,
            timeout=None if self.timeout is None else _timeout(self.timeout),
            max_crashes=self.max_crashes,
            retention=self.retention,
            keep_result=self.keep_result,
            start_only=self.start_by is not None,
        )

    def split_deadline(self) -> tuple[datetime | None, float | None]:
        """The time by which the job must have ended, or have started, and the same as seconds
        from its insertion. At most one of them is given."""
        if self.start_by is not None:
            return _split("start_by", self.start_by)
        return _split("deadline", self.deadline)

    def headers_json(self, more: Mapping[str, str] | None = None) -> str | None:
        """The headers as JSON; these options win over `more`."""
        if not isinstance(self.headers, Mapping):
            raise BadOption("headers", "a mapping of text to text", self.headers)
        return encode_headers({**more, **self.headers} if more else self.headers)


def seconds(wait: object) -> float:
    """A wait in seconds. The option that takes the wait checks its range."""
    found = wait.total_seconds() if isinstance(wait, timedelta) else checks.number(wait)
    if math.isnan(found) and not isinstance(wait, float):
        raise BadOption("a wait", "seconds or a timedelta", wait)
    return found


def _check_period(period: float, retention: Retention) -> None:
    """A job that retention removes lets go of its key, so it must be kept for the whole period."""
    for name in retention.__struct_fields__:
        kept = getattr(retention, name)
        if kept is not None and kept < period:
            expected = f"at most retention.{name}, {kept:g} s: keep the jobs longer, or shorten it"
            raise BadOption("unique period", expected, period)


def _retry(given: object) -> Retry:
    """A number is how often the job may run, the first time included: runs, not retries."""
    if isinstance(given, Retry):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        return Retry(max_attempts=given)
    expected = "a Retry, or how often it may run: a whole number, at least 1 (1 is never again)"
    raise BadOption("retry", expected, given)


def _check_times(options: JobOptions) -> None:
    if options.delay is not None and options.run_at is not None:
        raise BadOption("delay and run_at", "one of the two", "both")
    if options.delay is not None:
        checks.wait("delay", options.delay)
    if options.run_at is not None:
        checks.moment("run_at", options.run_at)
    if options.deadline is not None and options.start_by is not None:
        expected = "one of the two (a timeout bounds how long an attempt may take)"
        raise BadOption("deadline and start_by", expected, "both")
    options.split_deadline()


def _timeout(given: Seconds) -> float:
    return checks.wait("timeout", given, zero=False, otherwise="None, or ")


def _split(option: str, given: datetime | Seconds | None) -> tuple[datetime | None, float | None]:
    if given is None:
        return None, None
    if isinstance(given, datetime):
        return checks.moment(option, given), None
    return None, checks.wait(option, given, zero=False, otherwise="a datetime, or ")
