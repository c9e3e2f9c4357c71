"""FailureTracker: a poison item neither blocks nor floods a sweep."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.background.failures import FailureTracker

ITEM = "job"


def fail_in_a_row(tracker: FailureTracker, times: int, item: str = ITEM) -> None:
    for _ in range(times):
        tracker.begin_cycle()
        assert not tracker.skips(item)
        tracker.failed(item)


def cycles_skipped(tracker: FailureTracker, item: str = ITEM) -> int:
    """How many cycles pass until the item is tried again."""
    for skipped in range(100):
        tracker.begin_cycle()
        if not tracker.skips(item):
            return skipped
    raise AssertionError("never tried again")


def test_an_item_is_tried_until_it_has_failed_three_times_running() -> None:
    tracker = FailureTracker()
    fail_in_a_row(tracker, 2)
    assert cycles_skipped(tracker) == 0


def test_the_third_failure_running_rests_the_item_for_ten_cycles() -> None:
    tracker = FailureTracker()
    fail_in_a_row(tracker, 3)
    assert cycles_skipped(tracker) == 10


def test_a_failure_says_whether_the_item_now_rests() -> None:
    tracker = FailureTracker()
    assert [tracker.failed(ITEM) for _ in range(4)] == [False, False, True, True]


def test_an_item_that_fails_after_its_rest_rests_again_at_once() -> None:
    tracker = FailureTracker()
    fail_in_a_row(tracker, 3)
    cycles_skipped(tracker)
    tracker.failed(ITEM)
    assert cycles_skipped(tracker) == 10


def test_a_success_clears_what_was_counted() -> None:
    tracker = FailureTracker()
    fail_in_a_row(tracker, 2)
    tracker.succeeded(ITEM)
    fail_in_a_row(tracker, 2)
    assert cycles_skipped(tracker) == 0


def test_items_are_counted_apart() -> None:
    tracker = FailureTracker()
    fail_in_a_row(tracker, 3, "poison")
    tracker.begin_cycle()
    assert tracker.skips("poison")
    assert not tracker.skips("sound")


def test_memory_is_bounded_by_dropping_the_oldest_failure() -> None:
    tracker = FailureTracker(capacity=3)
    for item in ("a", "b", "c", "a", "d"):
        tracker.failed(item)
    assert len(tracker) == 3
    for item in ("a", "c", "d"):  # "a" failed again, so "b" was the oldest
        tracker.succeeded(item)
    assert len(tracker) == 0


def test_an_item_that_vanished_is_forgotten() -> None:
    tracker = FailureTracker(rest=10)
    fail_in_a_row(tracker, 3)
    for _ in range(22):
        tracker.begin_cycle()
    assert len(tracker) == 0


@given(st.lists(st.booleans(), max_size=80), st.integers(1, 5), st.integers(1, 12))
def test_an_item_rests_exactly_when_its_last_tries_all_failed(
    ends: list[bool], strikes: int, rest: int
) -> None:
    tracker = FailureTracker(strikes=strikes, rest=rest)
    failed_running = skipped_running = 0
    for succeeds in ends:
        tracker.begin_cycle()
        must_skip = failed_running >= strikes and skipped_running < rest
        assert tracker.skips(ITEM) == must_skip
        if must_skip:
            skipped_running += 1
            continue
        skipped_running = 0
        failed_running = 0 if succeeds else failed_running + 1
        if succeeds:
            tracker.succeeded(ITEM)
        else:
            tracker.failed(ITEM)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=200), st.integers(1, 8))
def test_memory_never_exceeds_its_bound(tries: list[tuple[int, bool]], capacity: int) -> None:
    tracker = FailureTracker(capacity=capacity)
    for item, new_cycle in tries:
        if new_cycle:
            tracker.begin_cycle()
        tracker.failed(str(item))
        assert len(tracker) <= capacity
