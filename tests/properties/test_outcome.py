"""Whatever ends an attempt, what follows is legal, bounded and can be stored."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdfast.job.checks import LONGEST_WAIT
from holdfast.job.ends import End, Raised, Returned, WorkerLost
from holdfast.job.ids import new_job_id
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, decode_policy, encode_policy
from holdfast.job.record import Live
from holdfast.job.state import ENDED, LIVE, TRANSITIONS, WAITING, JobState
from holdfast.job.text import clean
from tests.properties.ends import ends_of_running, ends_of_waiting, policies

waiting_states = st.sampled_from(sorted(WAITING))


@st.composite
def running(draw: st.DrawFn) -> Live:
    """A running job that kept the rules so far: attempts and crashes left."""
    policy = draw(policies)
    attempts = draw(st.integers(0, (policy.retry.max_attempts or 1_000) - 1))
    crashes = draw(st.integers(0, min(attempts, policy.max_crashes - 1)))
    return job_in(JobState.RUNNING, policy, attempts, crashes)


def job_in(state: JobState, policy: Policy, attempts: int = 0, crashes: int = 0) -> Live:
    text = encode_policy(policy)
    return Live(new_job_id(), state, "default", "greet", text, attempts, crashes, 3)


@given(running(), ends_of_running, st.booleans())
def test_every_end_of_a_running_job_is_a_legal_move(job: Live, end: End, cancel: bool) -> None:
    move = decide(job, end, cancel_requested=cancel)
    assert move.to in TRANSITIONS[JobState.RUNNING]
    assert (move.source, move.id, move.fence) == (JobState.RUNNING, job.id, job.fence)


@given(waiting_states, policies, ends_of_waiting)
def test_every_end_of_a_waiting_job_is_a_legal_move(
    state: JobState, policy: Policy, end: End
) -> None:
    move = decide(job_in(state, policy), end)
    assert move.to in TRANSITIONS[state] & ENDED
    assert move.source is state


@given(running(), ends_of_running, st.booleans())
def test_attempts_and_crashes_stay_within_their_bounds(job: Live, end: End, cancel: bool) -> None:
    move = decide(job, end, cancel_requested=cancel)
    policy = decode(job)
    attempts, crashes = job.attempts + move.spend, job.crashes + move.crash
    assert policy.retry.allows(attempts - 1)
    assert crashes <= policy.max_crashes
    if move.to in LIVE:
        assert policy.retry.allows(attempts)
        assert crashes < policy.max_crashes


@given(running(), ends_of_running, st.booleans())
def test_every_wait_can_be_added_to_a_clock(job: Live, end: End, cancel: bool) -> None:
    move = decide(job, end, cancel_requested=cancel)
    for wait in (move.delay, move.cool, move.keep_for):
        if wait is not None:
            assert 0 <= wait <= 2 * LONGEST_WAIT
            timedelta(seconds=wait)


@given(running(), ends_of_running, st.booleans())
def test_every_text_can_be_stored(job: Live, end: End, cancel: bool) -> None:
    move = decide(job, end, cancel_requested=cancel)
    texts = [move.reason, *(([move.error.message, move.error.kind]) if move.error else [])]
    for text in texts:
        if text is not None:
            assert "\x00" not in text
            text.encode("utf-8")


@given(running(), ends_of_running)
def test_a_requested_cancel_leaves_no_live_job(job: Live, end: End) -> None:
    move = decide(job, end, cancel_requested=True)
    assert move.to in ENDED
    assert (move.to is JobState.SUCCEEDED) == isinstance(end, Returned)


@given(running(), st.floats(min_value=0, max_value=1e9))
def test_a_hint_is_honoured_to_the_second(job: Live, hint: float) -> None:
    move = decide(job, Raised("E", "busy", retry_after=hint))
    assert move.to is JobState.FAILED or move.delay == hint


@given(running())
def test_a_lost_worker_always_leaves_a_newer_fence(job: Live) -> None:
    move = decide(job, WorkerLost())
    assert (move.bump, move.crash, move.spend) == (1, 1, 1)


@given(running(), ends_of_running, st.floats(0, 1, exclude_max=True))
def test_the_same_end_of_the_same_job_is_decided_the_same(
    job: Live, end: End, chance: float
) -> None:
    assert decide(job, end, uniform=lambda: chance) == decide(job, end, uniform=lambda: chance)


@given(st.text(), st.integers(1, 60), st.booleans())
def test_clean_never_splits_a_character_or_grows_past_its_limit(
    text: str, limit: int, keep_end: bool
) -> None:
    cleaned = clean(text, limit, keep_end=keep_end)
    assert len(cleaned) <= max(limit, 1)
    assert "\x00" not in cleaned
    whole = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    kept = cleaned.removeprefix("…") if keep_end else cleaned.removesuffix("…")
    assert cleaned == whole or (whole.endswith(kept) if keep_end else whole.startswith(kept))


@given(st.text(), st.integers(1, 60))
def test_cleaning_twice_changes_nothing_more(text: str, limit: int) -> None:
    assert clean(clean(text, limit), limit) == clean(text, limit)


def decode(job: Live) -> Policy:
    return decode_policy(job.policy)
