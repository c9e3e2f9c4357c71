"""How far a step of a walk looks."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.contract.reading import WalkBound
from holdfast.store.walks import FIRST_LOOK, GROWTH, NEXT_LOOK, SPARE, Walk

SECONDS = 0.05


class Watch:
    """A clock that moves when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def after_first_step(
    found: int, *, limit: int = 50, look: int = 20_000, took: float = 0.0005
) -> Walk:
    watch = Watch()
    walk = Walk(limit, None, WalkBound(look, SECONDS), clock=watch)
    take(walk, watch, took, [f"{n}" for n in range(found)])
    return walk


def take(walk: Walk, watch: Watch, took: float, found: Sequence[str] = ()) -> None:
    step = walk.step
    watch.now += took
    walk.add(found, step, "last", ended=False)


def test_the_first_step_is_small() -> None:
    assert Walk(50, None, WalkBound()).step == FIRST_LOOK
    assert Walk(50, None, WalkBound(10)).step == 10


def test_a_later_step_looks_at_what_the_page_seems_to_need() -> None:
    """Fourteen jobs in a thousand fit: another 2,600 jobs would fill the page."""
    assert after_first_step(14).step == int(SPARE * 37 * 1_000 / 14)


def test_a_later_step_is_never_smaller_than_the_first() -> None:
    assert after_first_step(50).step == FIRST_LOOK


def test_a_step_is_bounded_by_what_is_left_and_by_what_one_may_read() -> None:
    watch = Watch()
    walk = Walk(50, None, WalkBound(10**6, SECONDS), clock=watch)
    for step in (FIRST_LOOK, GROWTH * FIRST_LOOK, GROWTH**2 * FIRST_LOOK, NEXT_LOOK, NEXT_LOOK):
        assert walk.step == step
        take(walk, watch, 0.0001)
    assert after_first_step(0, look=1_500).step == 500


def test_a_step_looks_at_no_more_jobs_than_fit_into_the_time_that_is_left() -> None:
    assert after_first_step(0, took=SECONDS / 4).step == 3 * FIRST_LOOK
    assert after_first_step(0, took=SECONDS / 2).step == FIRST_LOOK


def test_a_walk_whose_time_is_over_ends_as_an_incomplete_page() -> None:
    walk = after_first_step(2, took=SECONDS)
    assert walk.step == 0
    page = walk.page((), None)
    assert (page.next_cursor, page.looked_at, page.complete) == ("last", FIRST_LOOK, False)


@given(
    jobs=st.lists(st.booleans(), max_size=60),
    limit=st.integers(1, 10),
    look=st.integers(1, 30),
    took=st.lists(st.sampled_from([0.0, 0.001, SECONDS / 3, SECONDS, 1.0]), min_size=1),
)
def test_pages_of_any_length_find_exactly_what_a_full_scan_finds(
    jobs: list[bool], limit: int, look: int, took: list[float]
) -> None:
    """The jobs by their ids, newest first, each with whether it is meant."""
    ids = [f"{n:03}" for n in range(len(jobs), 0, -1)]
    meant = [one for one, is_meant in zip(ids, jobs, strict=True) if is_meant]
    watch, cursor, found, steps = Watch(), None, list[str](), 0
    while True:
        walk = Walk(limit, cursor, WalkBound(look, SECONDS), clock=watch)
        while step := walk.step:
            rest = [one for one in ids if walk.cursor is None or one < walk.cursor][:step]
            watch.now += took[steps % len(took)]
            hits = [one for one in rest if one in meant][: walk.room]
            looked = rest[: rest.index(hits[-1]) + 1] if len(hits) == walk.room else rest
            is_short = len(rest) < step and len(hits) < walk.room
            walk.add(hits, len(looked), looked[-1] if looked else None, ended=is_short)
            steps += 1
        page = walk.page((), None)
        assert page.looked_at or not ids or page.next_cursor is None, "each page looks at some jobs"
        found += walk.ids
        if (cursor := page.next_cursor) is None:
            break
    assert found == meant
