"""attempt.py: how long an attempt may take, by its timeout and by the deadline of its job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.handlers.registry import Handler
from holdfast.job.ids import new_job_id
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Claimed
from holdfast.worker.attempt import NEVER, Answers, Attempt, Stop

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HANDLER = Handler.of("greet", lambda: None)


class Nobody:
    answer = answer_sync = None


def attempt(policy: Policy, deadline_in: float | None, *, attempts: int = 0) -> Attempt:
    deadline = None if deadline_in is None else NOW + timedelta(seconds=deadline_in)
    job = Claimed(
        id=new_job_id(),
        task="greet",
        queue="default",
        priority=0,
        args="{}",
        policy=encode_policy(policy),
        attempts=attempts,
        crashes=0,
        fence=1,
        created_at=NOW,
        ready_at=NOW,
        claimed_at=NOW,
        deadline_at=deadline,
        tags=(),
        headers=None,
        checkpoint=None,
    )
    nobody: Answers = Nobody()  # type: ignore[assignment]  # nobody asks
    return Attempt(job, HANDLER, nobody, 1_000.0)


def test_a_deadline_bounds_all_of_an_attempt() -> None:
    bound = attempt(Policy(timeout=60), 10)
    bound.begin()
    assert (bound.ends_by, bound.overdue_by()) == (1_010, Stop.DEADLINE)


def test_a_deadline_of_the_start_counts_until_the_function_is_called() -> None:
    bound = attempt(Policy(start_only=True), 10)
    assert (bound.ends_by, bound.overdue_by()) == (1_010, Stop.DEADLINE)
    bound.begin()
    assert (bound.ends_by, bound.overdue_by()) == (NEVER, Stop.TIMEOUT)


def test_the_timeout_counts_on_after_the_start() -> None:
    bound = attempt(Policy(start_only=True, timeout=60), 10)
    bound.begin()
    assert (bound.ends_by, bound.overdue_by()) == (1_060, Stop.TIMEOUT)


def test_a_deadline_of_the_start_that_has_passed_keeps_a_job_from_beginning() -> None:
    assert attempt(Policy(start_only=True), -1).stop is Stop.DEADLINE


def test_a_deadline_of_the_start_means_nothing_to_a_second_attempt() -> None:
    again = attempt(Policy(start_only=True), -1, attempts=1)
    assert (again.stop, again.ends_by) == (None, NEVER)
