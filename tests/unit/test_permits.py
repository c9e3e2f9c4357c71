"""worker/slots.py: how many jobs a worker may hold."""

from __future__ import annotations

from holdfast.worker.permits import REACH, Permits


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def worked(slots: Permits, watch: Watch, ended: int, seconds: float) -> None:
    """So many jobs of queue `a` came and ended in this time."""
    slots.take("a", ended)
    for _ in range(ended):
        slots.ended("a")
    watch.seconds += seconds
    slots.reckon()


def test_a_worker_at_rest_has_room_for_its_slots() -> None:
    slots = Permits({"a": 3, "b": 7}, Watch())
    slots.reckon()
    assert (slots.room("a"), slots.room("b")) == (3, 7)


def test_room_is_what_was_not_taken() -> None:
    slots = Permits({"a": 3}, Watch())
    slots.take("a", 3)
    assert slots.room("a") == 0
    slots.ended("a")
    slots.give("a")
    assert slots.room("a") == 2


def test_short_handlers_let_a_worker_hold_what_its_slots_get_through() -> None:
    watch = Watch()
    slots = Permits({"a": 3, "b": 7}, watch)
    worked(slots, watch, ended=100, seconds=REACH)
    assert slots.room("a") == 50  # one half now, the other while these run
    slots.take("a", 50)
    assert slots.room("a") == 50
    slots.take("a", 50)
    assert slots.room("a") == 0
    assert slots.room("b") == 7


def test_handlers_that_take_longer_than_the_reach_are_never_claimed_ahead() -> None:
    watch = Watch()
    slots = Permits({"a": 50}, watch)
    worked(slots, watch, ended=50, seconds=REACH)
    slots.take("a", 50)
    assert slots.room("a") == 0


def test_room_shrinks_to_the_slots_when_handlers_turn_slow() -> None:
    watch = Watch()
    slots = Permits({"a": 3}, watch)
    worked(slots, watch, ended=100, seconds=REACH)
    slots.take("a", 40)
    worked(slots, watch, ended=1, seconds=1.0)
    assert slots.room("a") < 0


def test_a_claim_is_never_halved_below_the_slots() -> None:
    watch = Watch()
    slots = Permits({"a": 50}, watch)
    worked(slots, watch, ended=60, seconds=REACH)
    assert slots.room("a") == 50


def test_a_claim_is_worthwhile_once_a_quarter_of_the_room_is_free() -> None:
    slots = Permits({"a": 8}, Watch())
    slots.take("a", 7)
    assert not slots.worthwhile("a")
    slots.ended("a")
    assert slots.worthwhile("a")


def test_nothing_is_claimed_ahead_while_a_job_that_ended_a_worker_is_about() -> None:
    watch = Watch()
    slots = Permits({"a": 3}, watch)
    worked(slots, watch, ended=100, seconds=REACH)
    slots.cautious = True
    assert slots.room("a") == 3
    slots.take("a", 3)
    assert (slots.room("a"), slots.worthwhile("a")) == (0, False)
    slots.cautious = False
    assert slots.room("a") == 50
