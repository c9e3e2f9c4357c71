"""An option of the wrong type is a BadOption that names it, where it is given: a value that only a
store or an encoder finds wrong would fail the whole batch it travels in."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast import App
from holdfast.background.options import ReconcileOptions
from holdfast.enqueue.options import JobOptions
from holdfast.errors import BadOption
from holdfast.handlers.exceptions import raised
from holdfast.job.ends import Cancel, Snooze, Suspend, Throttled, TryAgain
from holdfast.job.policy import Policy, Retention
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.unique import UniqueBy
from holdfast.testing import Harness, SyncHarness
from holdfast.worker.options import WorkerOptions

HUGE = 10**400
UNSHOWABLE = 10**5000  # Python refuses to write so long a number as text
NO_NUMBERS = (None, "3", True, math.nan, math.inf, HUGE, UNSHOWABLE, timedelta(seconds=1), [1])
NO_COUNTS = (*NO_NUMBERS, 2.5, 2.0, 0, -1)
FAR = datetime(9999, 1, 1, tzinfo=UTC)
NO_EXCEPTIONS = (None, 3, ValueError, "ValueError", [int], [3], [""])
NO_REPLACEMENTS: tuple[object, ...] = (5, "http", [], {"http": 1}, {None: 1})
NO_FLAGS: tuple[object, ...] = (None, "no", 0, 1, [])


class Ratio(float):
    """As numpy's numbers are: a float to Python, unknown to the encoder."""


def kind(value: object) -> str:
    return type(value).__name__


def options(**given: Any) -> JobOptions:
    return JobOptions().using(given)


def worker(**given: Any) -> WorkerOptions:
    return WorkerOptions(**({"queues": {"default": 1}} | given))


def eager(**given: Any) -> None:
    with App("sqlite://").eager(**given):
        pass


def scheduled(**given: Any) -> None:
    app = App("sqlite://")

    @app.schedule("@daily", **given)
    @app.task(name="nightly")
    def nightly() -> None: ...


def harness(**given: Any) -> None:
    Harness(**({"app": App("sqlite://")} | given))


WRONG: list[tuple[Callable[..., object], str, str, tuple[object, ...]]] = [
    (Retry, "max_attempts", "retry.max_attempts", NO_COUNTS[1:]),
    (Retry, "on", "retry.on", NO_EXCEPTIONS),
    (Retry, "not_on", "retry.not_on", NO_EXCEPTIONS),
    (Retry, "base", "retry.base", NO_NUMBERS),
    (Retry, "cap", "retry.cap", NO_NUMBERS),
    (Retry, "jitter", "retry.jitter", NO_NUMBERS),
    (Retry, "curve", "retry.curve", ("steep", None, ["linear"])),
    (Retry, "delays", "retry.delays", (None, 5, "12", (1, "2"), (HUGE,))),
    (Retention, "succeeded", "retention.succeeded", (*NO_NUMBERS[1:], -1)),
    (Retention, "failed", "retention.failed", (*NO_NUMBERS[1:], -1)),
    (Retention, "other", "retention.other", (*NO_NUMBERS[1:], -1)),
    (Policy, "timeout", "timeout", ("3", True, math.inf, HUGE, timedelta(1), 0)),
    (Policy, "max_crashes", "max_crashes", NO_COUNTS),
    (Policy, "keep_result", "keep_result", NO_FLAGS),
    (Policy, "retry", "retry", (3, None)),
    (Policy, "retention", "retention", (3600, None)),
    (options, "timeout", "timeout", ("3", True, math.inf, HUGE, 0, timedelta(0))),
    (options, "delay", "delay", ("3", True, math.inf, HUGE, -1)),
    (options, "deadline", "deadline", ("3", True, math.inf, HUGE, 0)),
    (options, "run_at", "run_at", ("2030-01-01", 5, True)),
    (options, "max_crashes", "max_crashes", NO_COUNTS),
    (options, "keep_result", "keep_result", NO_FLAGS),
    (options, "retention", "retention", (3600, timedelta(hours=1), None)),
    (options, "priority", "priority", (True, 1.0, None, HUGE)),
    (options, "tags", "tags", (5, None, "mail", UNSHOWABLE)),
    (options, "headers", "headers", (5, None, ["a"], "a")),
    (options, "unique", "unique", (5, True)),
    (worker, "queues", "queue 'default': slots", ({"default": True}, {"default": 1.5})),
    (worker, "queues", "queue", ({5: 1}, {"a b": 1})),
    (worker, "lease", "lease", NO_NUMBERS),
    (worker, "poll", "poll", NO_NUMBERS),
    (worker, "grace", "grace", NO_NUMBERS),
    (worker, "patience", "patience", NO_NUMBERS),
    (worker, "batch", "batch", NO_COUNTS),
    (worker, "max_unwritten", "max_unwritten", NO_COUNTS),
    (worker, "max_payload", "max_payload", NO_COUNTS),
    (worker, "threads", "threads", ("3", True, 2.5, 0, HUGE)),
    (worker, "processes", "processes", ("3", True, 2.5, 0, HUGE)),
    (worker, "name", "name", (None, 5, "", "a\x00b")),
    (ReconcileOptions, "batch", "reconcile.batch", NO_COUNTS),
    (ReconcileOptions, "promotion", "reconcile.promotion", NO_NUMBERS),
    (ReconcileOptions, "grace", "reconcile.grace", NO_NUMBERS),
    (App, "lease", "lease", (True, math.nan, math.inf, HUGE, [1])),
    (App, "poll", "poll", (True, math.nan, math.inf, HUGE, [1])),
    (App, "max_payload", "max_payload", (True, 2048.5, HUGE, [1])),
    (App, "url", "url", (5, True, b"sqlite://", ["sqlite://"], object())),
    (App, "url", "store URL", ("jobs.db", "mysql://host/jobs", "")),
    (App, "lifespan", "lifespan", (5, "main", [], {})),
    (App, "clock", "clock", (5, "now", datetime(2030, 1, 1, tzinfo=UTC))),
    (worker, "imports", "imports", (5, "shop", None, [5], ["shop"], (5,))),
    (eager, "raises", "raises", NO_FLAGS),
    (eager, "resources", "resources", NO_REPLACEMENTS),
    (options, "tags", "tags", ({"mail": 1},)),
    (Retry, "on", "retry.on", ({"ValueError": 1},)),
    (scheduled, "cap", "cap", (object(), max, "3", 2.5, None)),
    (harness, "app", "app", (5, None, "app", App)),
    (harness, "url", "store URL", (5, None, "jobs.db")),
    (harness, "start", "start", (5, "now", datetime(2030, 1, 1), True)),  # noqa: DTZ001
    (harness, "resources", "resources", NO_REPLACEMENTS),
    (harness, "tolerance", "tolerance", ("3", None, True, -1)),
    (SyncHarness, "app", "app", (5,)),
]


@pytest.mark.parametrize(
    ("make", "option", "named", "value"),
    [
        pytest.param(make, option, named, value, id=f"{named}-{kind(value)}-{n}")
        for make, option, named, values in WRONG
        for n, value in enumerate(values)
    ],
)
def test_an_option_of_the_wrong_type_is_a_bad_option_that_names_it(
    make: Callable[..., object], option: str, named: str, value: object
) -> None:
    with pytest.raises(BadOption) as refused:
        make(**{option: value})
    assert refused.value.option.startswith(named)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize("value", ["no", 1, None])
def test_a_task_says_plainly_whether_it_needs_a_process(value: Any) -> None:
    with pytest.raises(BadOption, match="process must be True or False"):
        App("sqlite://").task(process=value)


def test_a_number_of_a_class_of_its_own_becomes_plain_before_it_is_stored() -> None:
    retry = Retry(base=Ratio(2.5), cap=Ratio(5), jitter=Ratio(0))
    policy = options(retry=retry, retention=Retention(failed=Ratio(60)), timeout=Ratio(9)).policy()
    numbers = (policy.retry.base, policy.retention.failed, policy.timeout)
    assert [type(number) for number in numbers] == [float, float, float]
    assert numbers == (2.5, 60.0, 9.0)


FAR_EAST, FAR_WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))


@pytest.mark.parametrize("option", ["run_at", "deadline"])
@pytest.mark.parametrize(
    "moment",
    [
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=FAR_WEST),
        datetime.min.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=FAR_EAST),
        datetime(9000, 1, 2, tzinfo=UTC),
        datetime(1969, 12, 31, tzinfo=UTC),
    ],
)
def test_a_moment_that_a_store_cannot_reckon_with_is_refused(option: str, moment: datetime) -> None:
    with pytest.raises(BadOption, match=f"{option} must be .* from 1970 to the year 9000"):
        options(**{option: moment})


@pytest.mark.parametrize("end", [Snooze, Suspend, Throttled])
@pytest.mark.parametrize("value", ["soon", True, HUGE, UNSHOWABLE, [1]], ids=kind)
def test_a_handler_that_asks_for_nonsense_is_told_which_wait_it_was(end: Any, value: Any) -> None:
    with pytest.raises(BadOption, match=end.__name__):
        end(value)


@pytest.mark.parametrize(
    "hint",
    [
        HUGE,
        UNSHOWABLE,
        -HUGE,
        math.inf,
        math.nan,
        "soon",
        None,
        True,
        FAR,
    ],
    ids=kind,
)
def test_a_hint_that_is_no_wait_is_no_hint(hint: object) -> None:
    error = ValueError("upstream is busy")
    error.retry_after = hint  # type: ignore[attr-defined]  # what some clients attach
    assert (raised(error).retry_after, raised(error).retry_at) == (None, None)


AT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hint", "after", "at"),
    [(7, 7.0, None), (timedelta(minutes=1), 60.0, None), (AT, None, AT)],
    ids=kind,
)
def test_a_hint_is_seconds_a_timedelta_or_a_moment(
    hint: object, after: float | None, at: datetime | None
) -> None:
    error = ValueError("upstream is busy")
    error.retry_after = hint  # type: ignore[attr-defined]  # what some clients attach
    assert (raised(error).retry_after, raised(error).retry_at) == (after, at)


@pytest.mark.parametrize(
    ("raises", "named"),
    [
        (lambda: Snooze(), "Snooze must be seconds or until=…, got 'neither'"),
        (lambda: Snooze(5, until=AT), "Snooze must be seconds or until=…, got 'both'"),
        (lambda: Snooze(until=AT.replace(tzinfo=None)), "with a time zone"),
        (lambda: TryAgain(delay=5, at=AT), "TryAgain must be delay=… or at=…, got 'both'"),
        (lambda: TryAgain(delay="soon"), "TryAgain"),  # type: ignore[arg-type]
        (lambda: TryAgain(at=AT.replace(tzinfo=None)), "with a time zone"),
        (lambda: TryAgain(5), "message of TryAgain must be text"),  # type: ignore[arg-type]
        (lambda: Cancel(None), "reason of Cancel must be text"),  # type: ignore[arg-type]
    ],
)
def test_a_wish_of_a_handler_is_checked_where_it_is_raised(
    raises: Callable[[], object], named: str
) -> None:
    with pytest.raises(BadOption, match=named):
        raises()


@pytest.mark.parametrize(
    ("by", "named"),
    [
        ({"key": "k", "states": "ready"}, "unique states"),
        ({"key": "k", "states": ["nowhere"]}, "unique states"),
        ({"key": "k", "states": 5}, "unique states"),
        ({"key": "k", "states": None}, "unique states"),
        ({"key": "k", "states": [["ready"]]}, "unique states"),
        ({"key": "k", "scope": "world"}, "unique scope"),
        ({"key": "k", "scope": None}, "unique scope"),
        ({"key": 5}, "unique key"),
        ({"args": "user_id"}, "unique args"),
        ({"args": 5}, "unique args"),
        ({"args": [5]}, "unique args"),
        ({"key": "k", "on_conflict": "explode"}, "on_conflict"),
        ({"key": "k", "on_conflict": ["keep"]}, "on_conflict"),
    ],
)
def test_a_unique_rule_is_checked_by_type(by: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOption) as refused:
        UniqueBy(**by)
    assert refused.value.option == named


def test_states_of_a_unique_rule_may_come_as_texts() -> None:
    by = UniqueBy(key="k", states=["ready", JobState.RUNNING])  # type: ignore[arg-type]
    assert by.states == frozenset({JobState.READY, JobState.RUNNING})
    assert all(isinstance(state, JobState) for state in by.states)
