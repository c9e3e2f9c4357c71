"""JobOptions are checked before anything is written, and say what is wrong with them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.enqueue.maker import JobMaker
from holdfast.enqueue.options import JobOptions
from holdfast.errors import BadOption
from holdfast.job.checks import check_job_id
from holdfast.job.policy import Retention, decode_policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.unique import UniqueBy


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"queue": ""}, "queue must be"),
        ({"queue": "a b"}, "queue must be"),
        ({"queue": "x" * 129}, "queue must be"),
        ({"queue": 5}, "queue must be"),
        ({"priority": 1.5}, "priority must be a whole number"),
        ({"priority": True}, "priority must be a whole number"),
        ({"priority": 40_000}, "priority must be a whole number"),
        ({"delay": -1}, "delay must be 0 seconds or more"),
        ({"delay": float("nan")}, "delay must be 0 seconds or more"),
        ({"delay": 1, "run_at": datetime.now(UTC)}, "one of the two"),
        ({"run_at": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001 - the point
        ({"deadline": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001 - the point
        ({"deadline": 0}, "more than 0 seconds"),
        ({"unique": UniqueBy}, "unique must be"),
        ({"start_by": 0}, "start_by must be a datetime, or more than 0 seconds"),
        ({"start_by": "soon"}, "start_by must be"),
        ({"start_by": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001 - the point
        ({"start_by": 5, "deadline": 5}, "deadline and start_by must be one of the two"),
        ({"deadline": float("inf")}, "deadline must be"),
        ({"deadline": float("nan")}, "deadline must be"),
        ({"deadline": 1e300}, "deadline must be"),
        ({"timeout": 0}, "timeout must be None, or more than 0"),
        ({"max_crashes": 0}, "max_crashes must be a whole number, at least 1"),
        ({"retry": 0}, "retry must be a Retry, or how often it may run"),
        ({"retry": True}, "retry must be a Retry, or how often it may run"),
        ({"retry": False}, "retry must be a Retry, or how often it may run"),
        ({"retry": None}, "retry must be a Retry, or how often it may run"),
        ({"retry": 2.5}, "retry must be a Retry, or how often it may run"),
        ({"delay": "soon"}, "a number or a timedelta"),
        ({"timeout": [1]}, "a number or a timedelta"),
        ({"deadline": "1h"}, "a number or a timedelta"),
        ({"tags": "mail"}, "tags must be a list"),
        ({"tags": [""]}, "tag must be"),
        ({"tags": ["\x00"]}, "tag must be"),
        ({"tags": ["\ud800"]}, "tag must be"),
        ({"headers": {"a": "\ud800"}}, "headers must be text"),
        ({"headers": {"a": 1}}, "headers must be a mapping of text to text"),
        ({"headers": {"a": "x" * 9000}}, "headers must be at most"),
        ({"unique": ""}, "unique key must be"),
        ({"unique": "a\x00b"}, "unique key must be"),
        ({"unique": "\ud800"}, "unique key must be"),
        ({"unique": 7}, "unique must be a key or a UniqueBy"),
        ({"id": "not-a-uuid"}, "job id must be a UUID"),
        ({"prio": 1}, "option must be one of"),
    ],
)
def test_a_bad_option_is_refused_with_a_clear_word(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadOption, match=says):
        JobOptions().using(given)


def test_using_lays_options_over_those_before() -> None:
    options = JobOptions().using({"queue": "mail", "priority": 3}).using({"priority": -5})
    assert (options.queue, options.priority) == ("mail", -5)


def test_the_policy_is_frozen_on_the_job() -> None:
    retry = Retry(max_attempts=9)
    job = JobMaker("t", JobOptions().using({"retry": retry, "timeout": timedelta(minutes=1)})).make(
        "{}"
    )
    policy = decode_policy(job.policy)
    assert (policy.retry, policy.timeout) == (retry, 60.0)


def test_a_deadline_may_be_a_moment_or_a_wait() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    by_moment = JobMaker("t", JobOptions().using({"deadline": moment})).make("{}")
    by_wait = JobMaker("t", JobOptions().using({"deadline": timedelta(hours=1)})).make("{}")
    assert (by_moment.deadline_at, by_moment.deadline_in) == (moment, None)
    assert (by_wait.deadline_at, by_wait.deadline_in) == (None, 3600.0)


def unique_key(payload: str = '{"a":1,"b":2}', task: str = "t", **by: Any) -> str:
    unique = JobMaker(task, JobOptions().using({"unique": UniqueBy(**by)})).make(payload).unique
    assert unique is not None
    return unique.key


def test_a_plain_key_is_scoped_to_its_task() -> None:
    assert unique_key(key="k", task="one") != unique_key(key="k", task="two")


def test_a_queue_scope_makes_keys_of_different_tasks_meet() -> None:
    assert unique_key(key="k", task="one", scope="queue") == unique_key(
        key="k", task="two", scope="queue"
    )


def test_a_key_of_chosen_arguments_ignores_the_others() -> None:
    assert unique_key('{"a":1,"b":2}', args=("a",)) == unique_key('{"b":3,"a":1}', args=("a",))
    assert unique_key('{"a":1}', args=("a",)) != unique_key('{"a":2}', args=("a",))


def test_a_key_of_all_arguments_ignores_their_order() -> None:
    assert unique_key('{"a":1,"b":2}', args=()) == unique_key('{"b":2,"a":1}', args=())


def test_a_long_key_is_digested() -> None:
    assert len(unique_key('{"a":"%s"}' % ("x" * 5000), args=("a",))) < 100


def test_an_argument_that_is_not_there_cannot_make_a_key() -> None:
    with pytest.raises(BadOption, match="arguments of this call"):
        unique_key(args=("nobody",))


@pytest.mark.parametrize("by", [{}, {"key": "k", "args": ()}, {"key": "k", "states": frozenset()}])
def test_a_unique_rule_that_means_nothing_is_refused(by: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        UniqueBy(**by)


def test_states_and_conflict_reach_the_job() -> None:
    by = UniqueBy(key="k", states=frozenset({JobState.READY}), on_conflict="debounce")
    unique = JobMaker("t", JobOptions().using({"unique": by})).make("{}").unique
    assert unique is not None
    assert (unique.states, unique.on_conflict) == (frozenset({JobState.READY}), "debounce")


def test_an_id_may_come_as_a_uuid_object() -> None:
    own = uuid.uuid4()
    assert JobOptions().using({"id": own}).id == own
    assert check_job_id(own) == check_job_id(str(own).upper()) == str(own)


def test_a_number_for_retry_is_how_often_the_job_may_run() -> None:
    once = JobOptions().using({"retry": 1})
    assert once.policy().retry == Retry.never()
    assert once.using({"retry": 3}).policy().retry == Retry(max_attempts=3)


def test_start_by_is_a_deadline_that_bounds_only_the_start() -> None:
    by_default = JobOptions().using({"deadline": 60})
    job = JobMaker("t", by_default.using({"deadline": None, "start_by": 30})).make("{}")
    assert (job.deadline_in, decode_policy(job.policy).start_only) == (30.0, True)
    assert not by_default.policy().start_only


def test_the_longest_wait_of_a_debounce_is_checked() -> None:
    by = UniqueBy(key="k", on_conflict="debounce", max_wait=timedelta(minutes=1))
    job = JobMaker("t", JobOptions().using({"unique": by})).make("{}")
    assert job.unique is not None
    assert job.unique.max_wait == 60.0
    with pytest.raises(BadOption, match="max_wait must be left out unless"):
        UniqueBy(key="k", max_wait=60)
    with pytest.raises(BadOption, match="max_wait must be None, or 0 seconds or more"):
        UniqueBy(key="k", on_conflict="debounce", max_wait=-1)


def test_a_period_is_no_longer_than_the_jobs_are_kept() -> None:
    daily = UniqueBy(key="k", period=timedelta(days=1))
    job = JobMaker("t", JobOptions().using({"unique": daily})).make("{}")
    assert job.unique is not None
    assert job.unique.period == 86_400.0
    with pytest.raises(BadOption, match=r"at most retention\.succeeded, 60 s"):
        JobOptions().using({"unique": daily, "retention": Retention(succeeded=60)})
    JobOptions().using({"unique": daily, "retention": Retention.forever()})
    with pytest.raises(BadOption, match="unique period must be"):
        UniqueBy(key="k", period=0)
