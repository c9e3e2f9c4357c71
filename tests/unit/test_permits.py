"""worker/permits.py: how many jobs a worker may hold."""

from __future__ import annotations

from holdfast.worker.permits import FORGET_SECONDS, READ_AHEAD_SECONDS, Permits
from holdfast.worker.slots import Slots


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def worked(permits: Permits, watch: Watch, ended: int, seconds: float) -> None:
    """So many jobs of queue `a` came and ended in this time."""
    permits.take("a", ended)
    for _ in range(ended):
        permits.ended("a")
    watch.seconds += seconds
    permits.adapt()


def test_a_worker_at_rest_has_room_for_its_slots() -> None:
    permits = Permits({"a": 3, "b": 7}, Watch())
    permits.adapt()
    assert (permits.room("a"), permits.room("b")) == (3, 7)


def test_room_is_what_was_not_taken() -> None:
    permits = Permits({"a": 3}, Watch())
    permits.take("a", 3)
    assert permits.room("a") == 0
    permits.ended("a")
    permits.give("a")
    assert permits.room("a") == 2


def test_short_handlers_let_a_worker_hold_what_its_slots_get_through() -> None:
    watch = Watch()
    permits = Permits({"a": 3, "b": 7}, watch)
    worked(permits, watch, ended=100, seconds=READ_AHEAD_SECONDS)
    assert permits.room("a") == 50  # one half now, the other while these run
    permits.take("a", 50)
    assert permits.room("a") == 50
    permits.take("a", 50)
    assert permits.room("a") == 0
    assert permits.room("b") == 7


def test_handlers_that_take_longer_than_that_are_never_claimed_ahead() -> None:
    watch = Watch()
    permits = Permits({"a": 50}, watch)
    worked(permits, watch, ended=50, seconds=READ_AHEAD_SECONDS)
    permits.take("a", 50)
    assert permits.room("a") == 0


def test_room_shrinks_to_the_slots_when_handlers_turn_slow() -> None:
    watch = Watch()
    permits = Permits({"a": 3}, watch)
    worked(permits, watch, ended=100, seconds=READ_AHEAD_SECONDS)
    permits.take("a", 40)
    worked(permits, watch, ended=1, seconds=1.0)
    assert permits.room("a") < 0


def test_a_claim_is_never_halved_below_the_slots() -> None:
    watch = Watch()
    permits = Permits({"a": 50}, watch)
    worked(permits, watch, ended=60, seconds=READ_AHEAD_SECONDS)
    assert permits.room("a") == 50


def test_a_claim_is_worth_it_once_a_quarter_of_the_room_is_free() -> None:
    permits = Permits({"a": 8}, Watch())
    permits.take("a", 7)
    assert not permits.worth_a_claim("a")
    permits.ended("a")
    assert permits.worth_a_claim("a")


def test_nothing_is_claimed_ahead_while_a_job_that_ended_a_worker_is_about() -> None:
    watch = Watch()
    permits = Permits({"a": 3}, watch)
    worked(permits, watch, ended=100, seconds=READ_AHEAD_SECONDS)
    permits.reads_ahead = False
    assert permits.room("a") == 3
    permits.take("a", 3)
    assert (permits.room("a"), permits.worth_a_claim("a")) == (0, False)
    permits.reads_ahead = True
    assert permits.room("a") == 50


def test_a_queue_that_grows_has_more_room_at_once() -> None:
    permits = Permits({"a": 2}, Watch())
    permits.take("a", 2)
    permits.resize("a", 5)
    assert (permits.room("a"), permits.free("a")) == (3, 3)


def test_a_queue_that_shrinks_keeps_what_it_holds_and_gets_no_more() -> None:
    permits = Permits({"a": 5}, Watch())
    permits.take("a", 4)
    permits.resize("a", 2)
    assert (permits.room("a") <= 0, permits.free("a")) == (True, 0)
    for _ in range(3):
        permits.ended("a")
    assert (permits.room("a"), permits.free("a")) == (1, 1)


def test_a_queue_that_shrinks_forgets_how_far_it_read_ahead() -> None:
    watch = Watch()
    permits = Permits({"a": 3}, watch)
    worked(permits, watch, ended=100, seconds=READ_AHEAD_SECONDS)
    permits.resize("a", 2)
    assert permits.room("a") == 2


def test_a_queue_can_be_added() -> None:
    watch = Watch()
    permits = Permits({"a": 3}, watch)
    permits.resize("b", 4)
    assert permits.room("b") == 4
    permits.take("b", 1)
    permits.ended("b")
    watch.seconds += 1
    permits.adapt()
    assert (permits.room("a"), permits.room("b")) == (3, 4)


def test_a_queue_can_be_removed_while_jobs_of_it_run_and_come_back_later() -> None:
    watch = Watch()
    permits = Permits({"a": 3, "b": 2}, watch)
    permits.take("b", 2)
    permits.resize("b", 0)
    assert list(permits.slots) == ["a"]
    assert set(permits.ever_served) == {"a", "b"}
    watch.seconds += 1
    permits.adapt()
    permits.ended("b")
    permits.resize("b", 2)
    assert permits.room("b") == 1


def test_who_waits_for_room_hears_of_attempts_that_are_over_and_not_of_unused_permits() -> None:
    permits = Permits({"a": 3}, Watch())
    heard: list[str] = []
    permits.on_room = heard.append
    permits.take("a", 3)
    permits.give("a")
    assert heard == []
    permits.ended("a")
    permits.ended("a", ran=False)
    assert heard == ["a", "a"]


def test_a_queue_of_a_pattern_is_unused_a_while_after_its_last_job() -> None:
    watch = Watch()
    permits = Permits({"tenant*": 3, "mail": 1}, watch)
    for queue in ("tenant-1", "tenant-2", "tenant-3"):
        assert permits.adopt(queue)
    permits.take("tenant-1", 1)
    watch.seconds += FORGET_SECONDS
    assert permits.unused(["tenant-2", "mail"]) == ["tenant-3"]
    permits.forget("tenant-3")
    assert set(permits.slots) == set(permits.ever_served) == {"mail", "tenant-1", "tenant-2"}
    permits.ended("tenant-1")
    watch.seconds += FORGET_SECONDS - 1
    assert permits.unused([]) == []
    watch.seconds += 1
    assert sorted(permits.unused([])) == ["tenant-1", "tenant-2"]
    assert permits.adopt("tenant-3"), "it comes back with its next job"


def test_a_queue_that_an_operator_gave_slots_of_its_own_is_not_unused() -> None:
    watch = Watch()
    permits = Permits({"tenant*": 3}, watch)
    permits.adopt("tenant-1")
    permits.resize("tenant-1", 5)
    watch.seconds += FORGET_SECONDS
    assert permits.unused([]) == []


# Shared slots, and shares of a total ----------------------------------------------------------


def pooled(watch: Watch | None = None) -> Permits:
    choices: dict[str, int | Slots] = {"a": 4, "b": Slots(least=2, weight=3), "c": Slots()}
    return Permits(choices, watch or Watch(), shared=10)


def test_a_queue_of_a_pool_may_have_all_but_what_the_others_may_always_have() -> None:
    permits = pooled()
    assert permits.choices == {"a": 4, "b": 10, "c": 8}
    assert permits.total == 14
    assert permits.divided(["a", "b"]) == {"b": 10}
    assert permits.divided(["c"]) == {"c": 8}


def test_queues_of_a_pool_that_have_work_share_it_by_weight() -> None:
    permits = pooled()
    assert permits.divided(["b", "c"]) == {"b": 8, "c": 2}
    permits.take("c", 8)
    assert permits.divided(["b", "c"]) == {"b": 2, "c": 0}
    for _ in range(4):
        permits.ended("c")
    assert permits.divided(["b", "c"]) == {"b": 6, "c": 0}


def test_nothing_of_a_pool_is_claimed_ahead() -> None:
    watch = Watch()
    permits = pooled(watch)
    permits.take("b", 500)
    for _ in range(500):
        permits.ended("b")
    watch.seconds += READ_AHEAD_SECONDS
    permits.adapt()
    assert permits.room("b") == 10


def test_room_in_one_queue_of_a_pool_is_room_for_the_others() -> None:
    permits = pooled()
    assert permits.mates("b") == {"b", "c"}
    assert permits.mates("a") == {"a"}


def test_a_queue_of_a_pool_can_be_given_slots_of_its_own() -> None:
    permits = pooled()
    permits.resize("c", 3)
    assert (permits.total, permits.mates("c"), permits.divided(["c"])) == (17, {"c"}, {})


def test_a_share_of_a_total_holds_claims_up_and_takes_nothing_away() -> None:
    permits = Permits({"a": 8, "b": 2}, Watch())
    permits.take("a", 5)
    permits.share({"a": 4})
    assert (permits.room("a") <= 0, permits.free("a"), permits.share_of("a")) == (True, 0, 4)
    permits.ended("a")
    permits.ended("a")
    assert (permits.room("a"), permits.free("a")) == (1, 1)
    assert permits.choices == {"a": 8, "b": 2}, "what is declared stays declared"
    permits.share({})
    assert (permits.room("a"), permits.share_of("a")) == (5, None)


def test_nothing_of_a_queue_with_a_share_is_claimed_ahead() -> None:
    watch = Watch()
    permits = Permits({"a": 3}, watch)
    worked(permits, watch, ended=100, seconds=READ_AHEAD_SECONDS)
    permits.share({"a": 2})
    assert permits.room("a") == 2


def test_a_worker_without_a_share_asks_for_nothing() -> None:
    permits = Permits({"a": 3}, Watch())
    permits.share({"a": 0})
    assert (permits.room("a"), permits.free("a")) == (0, 0)
    assert list(permits.slots) == ["a"], "it serves the queue all the same"
