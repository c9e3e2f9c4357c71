"""worker/past_ends.py: which ends a worker remembers, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.worker import past_ends
from holdfast.worker.past_ends import PastEnds


def end(name: str, fence: int = 1, **more: Any) -> Transition:
    return Transition(JobId(name), fence, JobState.SUCCEEDED, spend=1, **more)


def test_the_end_of_each_attempt_is_remembered() -> None:
    past = PastEnds()
    past.keep([end("a", 1), end("b")])
    past.keep([end("a", 2)])
    assert past.attempts() == {("a", 1): end("a", 1), ("b", 1): end("b"), ("a", 2): end("a", 2)}


def test_an_end_that_is_written_again_is_the_newest() -> None:
    past = PastEnds()
    past.keep([end("a", reason="first")])
    past.keep([end("a", reason="second")])
    assert past.attempts() == {("a", 1): end("a", reason="second")}


def test_an_attempt_that_was_given_up_has_no_end_to_write() -> None:
    past = PastEnds()
    past.keep([end("a")])
    past.give_up(JobId("a"), 1)
    past.give_up(JobId("b"), 7)
    assert past.attempts() == {("a", 1): None, ("b", 7): None}


def test_the_oldest_batches_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_ends, "MOST_ENDS", 3)
    past = PastEnds()
    for names in ("ab", "c", "d"):
        past.keep([end(name) for name in names])
    assert [job for job, _ in past.attempts()] == ["c", "d"]


def test_large_results_are_forgotten_sooner_but_for_the_newest_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(past_ends, "MOST_BYTES", 10)
    past = PastEnds()
    past.keep([end("a", result="12345")])
    past.keep([end("b", result="12345"), end("c")])
    assert [job for job, _ in past.attempts()] == ["a", "b", "c"]
    past.keep([end("d", result="1" * 100)])
    assert [job for job, _ in past.attempts()] == ["d"]
