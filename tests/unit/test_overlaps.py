"""The judge of the tests on limits: it must see a fourth, and must not see one that was not."""

from __future__ import annotations

from tests.support.diary import Entry
from tests.support.overlaps import Run, most_at_once, runs_of


def entry(what: str, at: float, job: str = "j", fence: int = 1) -> Entry:
    return Entry(what=what, pid=1, at=at, job=job, fence=fence, text="k")


def test_runs_that_touch_do_not_overlap_and_those_that_share_a_moment_do() -> None:
    assert most_at_once([Run("k", "a", 1, 0, 1), Run("k", "b", 1, 1, 2)]) == {"k": 1}
    assert most_at_once([Run("k", "a", 1, 0, 1.1), Run("k", "b", 1, 1, 2)]) == {"k": 2}
    assert most_at_once([Run("k", "a", 1, 0, 9), Run("l", "b", 1, 1, 2)]) == {"k": 1, "l": 1}


def test_an_attempt_lasts_until_it_returned() -> None:
    entries = [entry("started", 1), entry("returned", 3), entry("started", 2, "other")]
    assert [run.ended for run in runs_of(entries)] == [3, float("inf")]


def test_an_attempt_that_outlived_its_lease_is_left_out() -> None:
    entries = [entry("started", 1), entry("started", 2, fence=2), entry("returned", 3)]
    assert [run.fence for run in runs_of(entries)] == [2]
