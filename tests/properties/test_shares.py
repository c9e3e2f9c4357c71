"""What workers may use of a queue's total, and of the slots that queues of a worker share."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.fleet.shares import shares
from holdfast.worker.slots import SlotPool, Slots

declarations = st.lists(st.integers(0, 60), max_size=12)


@given(total=st.integers(0, 300), declared=declarations)
def test_shares_add_up_to_the_total_or_to_all_that_is_declared(
    total: int, declared: list[int]
) -> None:
    """Invariant 12."""
    found = shares(total, declared)
    assert sum(found) == min(total, sum(declared))
    assert all(0 <= share <= slots for share, slots in zip(found, declared, strict=True))


@given(total=st.integers(0, 300), declared=declarations)
def test_who_could_have_more_has_as_much_as_any_but_one(total: int, declared: list[int]) -> None:
    found = shares(total, declared)
    for share, slots in zip(found, declared, strict=True):
        if share < slots:
            assert max(found) <= share + 1
    held_back = [share for share, slots in zip(found, declared, strict=True) if share < slots]
    assert held_back == sorted(held_back, reverse=True), "what does not divide goes to the first"


@given(total=st.integers(0, 100), declared=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_a_worker_that_joins_takes_from_nobody_more_than_it_gets(
    total: int, declared: list[int]
) -> None:
    before, after = shares(total, declared), shares(total, [*declared, 10])
    lost = sum(was - now for was, now in zip(before, after[:-1], strict=True))
    assert all(now <= was for was, now in zip(before, after[:-1], strict=True))
    assert lost <= after[-1]


members = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(Slots, st.integers(0, 5), st.integers(1, 4)),
    min_size=1,
    max_size=6,
)


@st.composite
def pools(draw: st.DrawFn) -> tuple[SlotPool, Counter[str], list[str]]:
    """A pool in a state that its own answers have led to."""
    queues = draw(members)
    pool = SlotPool(sum(one.least for one in queues.values()) + draw(st.integers(1, 40)), queues)
    held: Counter[str] = Counter()
    for asking in draw(st.lists(st.sets(st.sampled_from(sorted(queues))), max_size=4)):
        held.update(pool.divide(sorted(asking), held))
        for queue in queues:
            held[queue] -= draw(st.integers(0, held[queue]))
    return pool, held, sorted(draw(st.sets(st.sampled_from(sorted(queues)))))


@given(pools())
def test_a_pool_is_never_exceeded_and_what_each_may_always_have_stays_free(
    scene: tuple[SlotPool, Counter[str], list[str]],
) -> None:
    pool, held, asking = scene
    given = pool.divide(asking, held)
    after = held + Counter(given)
    assert after.total() <= pool.size
    owed = sum(max(0, one.least - after[queue]) for queue, one in pool.members.items())
    assert after.total() + owed <= pool.size
    for queue in asking:
        assert after[queue] >= min(pool.members[queue].least, pool.most(queue))


@given(pools())
def test_nothing_is_left_over_while_a_queue_asks(
    scene: tuple[SlotPool, Counter[str], list[str]],
) -> None:
    pool, held, asking = scene
    given = pool.divide(asking, held)
    after = held + Counter(given)
    owed = sum(max(0, one.least - after[queue]) for queue, one in pool.members.items())
    assert not asking or after.total() + owed == pool.size


@given(members, st.integers(1, 200))
def test_queues_that_all_have_work_share_by_weight(queues: dict[str, Slots], spare: int) -> None:
    pool = SlotPool(sum(one.least for one in queues.values()) + spare, queues)
    given = pool.divide(queues, Counter())
    weights = sum(one.weight for one in queues.values())
    for queue, one in queues.items():
        assert abs(given[queue] - one.least - spare * one.weight / weights) < one.weight + 1
