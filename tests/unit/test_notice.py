"""worker/notice.py: what several signals and orders mean together."""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from holdfast.worker.notice import Notice


def hurries(*numbers: Signals) -> list[bool]:
    """Whether each of these signals, one after the other, says to hurry."""
    notice, found = Notice(), []
    for number in numbers:
        found.append(notice.hear(number))
        notice.asked.set()
    return found


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((SIGTERM, SIGTERM), [False, True]),
        ((SIGINT, SIGTERM, SIGINT), [False, True, True]),
        ((SIGHUP, SIGHUP, SIGHUP), [False, False, False]),
        ((SIGTERM, SIGHUP), [False, False]),
        ((SIGHUP, SIGTERM), [False, False]),
        ((SIGHUP, SIGTERM, SIGTERM), [False, False, True]),
    ],
)
def test_a_second_stop_hurries_and_a_hangup_is_no_stop(
    numbers: tuple[Signals, ...], expected: list[bool]
) -> None:
    assert hurries(*numbers) == expected


def test_a_stop_that_a_program_asked_for_is_hurried_by_the_first_signal() -> None:
    notice = Notice()
    notice.asked.set()
    assert notice.hear(SIGTERM)


def test_a_worker_that_was_told_nothing_stays() -> None:
    assert (Notice().why, Notice().wants_successor) == ("", False)


def test_a_worker_leaves_for_a_successor_after_a_hangup_or_a_limit() -> None:
    reloaded, limited = Notice(), Notice()
    reloaded.hear(SIGHUP)
    limited.retiring = True
    assert (reloaded.why, limited.why) == ("reload", "limit")
    assert reloaded.wants_successor
    assert limited.wants_successor


def test_a_stop_or_an_order_to_drain_takes_the_wish_for_a_successor_back() -> None:
    stopped, drained = Notice(), Notice()
    for notice in (stopped, drained):
        notice.count(SIGHUP)
        notice.hear(SIGHUP)
        notice.asked.set()
        assert notice.wants_successor
    stopped.count(SIGTERM)
    drained.drained = True
    assert (stopped.why, drained.why) == ("stop", "drain")
    assert not stopped.wants_successor
    assert not drained.wants_successor
