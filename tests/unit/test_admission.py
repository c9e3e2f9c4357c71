"""worker/admission.py: which of the jobs that a claim brought begin here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from holdfast.handlers.registry import Handler, Mode
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Claimed
from holdfast.job.retry import Retry
from holdfast.reconcile.ruling import SUSPECT_SECONDS
from holdfast.worker.admission import STAGGER, Admitted, admit, is_careful
from holdfast.worker.attempt import Attempt

NOW = 1000.0
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


class OfMode:
    """As much of a handler as admission looks at."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode


def attempt(
    name: str = "a",
    *,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    attempts: int = 0,
    crashes: int = 0,
    fence: int | None = None,
    ahead: bool = False,
    since: float = NOW,
    begun: bool = False,
    mode: Mode = Mode.LOOP,
) -> Attempt:
    facts: dict[str, Any] = {"id": JobId(name), "fence": fence or attempts + crashes + 1}
    job = Claimed(
        task="t", queue="q", priority=0, args="", policy=encode_policy(policy), attempts=attempts,
        crashes=crashes, created_at=MOMENT, ready_at=MOMENT, claimed_at=MOMENT, deadline_at=None,
        tags=(), headers=None, checkpoint=None, ahead=ahead, **facts,
    )  # fmt: skip
    made = Attempt(job, cast("Handler", OfMode(mode)), cast("Any", None), since)
    made.begun = begun
    return made


def sorted_out(*attempts: Attempt, running: tuple[Attempt, ...] = ()) -> Admitted:
    return admit(attempts, running, NOW, uniform=lambda: 0.5)


THREE = Policy(retry=Retry(max_attempts=3), max_crashes=3)


@pytest.mark.parametrize(
    ("one", "careful"),
    [
        (attempt(policy=THREE), False),
        (attempt(policy=THREE, attempts=1), False),
        (attempt(policy=THREE, attempts=2), True),  # its last attempt
        (attempt(policy=Policy(retry=Retry.never())), True),
        (attempt(policy=THREE, crashes=1, attempts=1), True),
        (attempt(policy=Policy(max_crashes=1)), True),
        (attempt(policy=THREE, fence=2), True),  # it came back from somebody
    ],
)
def test_a_job_is_careful_when_not_paying_would_matter(one: Attempt, careful: bool) -> None:
    assert is_careful(one) is careful


def test_a_careful_job_that_was_claimed_ahead_goes_back() -> None:
    last = Policy(retry=Retry.never())
    now, ahead = attempt("now", policy=last), attempt("ahead", policy=last, ahead=True)
    plain, plain_ahead = attempt("plain"), attempt("plain ahead", ahead=True)
    admitted = sorted_out(now, plain, ahead, plain_ahead)
    assert admitted.begin == [now, plain, plain_ahead]
    assert admitted.hand_back == [ahead]
    assert admitted.careful


def test_a_claim_of_plain_jobs_is_not_careful() -> None:
    assert not sorted_out(attempt("a"), attempt("b", ahead=True)).careful


def test_one_suspect_begins_and_the_others_are_put_off_one_after_the_other() -> None:
    one, two, three = (attempt(name, crashes=1) for name in ("one", "two", "three"))
    plain = attempt("plain")
    admitted = sorted_out(one, plain, two, three)
    assert (admitted.apart, admitted.begin) == (one, [plain])
    assert admitted.put_off == [(two, STAGGER * 1.5), (three, STAGGER * 2.5)]


def test_no_suspect_begins_beside_another() -> None:
    held, other = attempt("held", crashes=1, begun=True), attempt("other", crashes=1)
    admitted = sorted_out(other, running=(attempt("plain"), held))
    assert admitted.apart is None
    assert [one for one, _ in admitted.put_off] == [other]


@pytest.mark.parametrize(
    ("held", "other", "bears"),
    [
        ({"crashes": 1, "begun": True}, 1, True),
        ({"crashes": 1, "begun": True}, 2, False),
        ({"crashes": 2, "begun": True}, 1, False),
        ({"crashes": 1, "begun": False}, 1, False),  # it still waits to begin
    ],
)
def test_a_suspect_of_one_crash_is_waited_for_a_bounded_time(
    held: dict[str, Any], other: int, bears: bool
) -> None:
    running = attempt("held", since=NOW - SUSPECT_SECONDS - 1, **held)
    suspect = attempt("other", crashes=other)
    assert sorted_out(suspect, running=(running,)).apart is (suspect if bears else None)


def test_what_runs_in_a_child_can_only_take_that_child_along() -> None:
    jobs = [attempt(name, crashes=1, mode=Mode.PROCESS) for name in ("one", "two")]
    assert sorted_out(*jobs).begin == jobs
