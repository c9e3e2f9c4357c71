"""How far a step of a walk looks."""

from __future__ import annotations

from holdfast.store.walks import FIRST_LOOK, NEXT_LOOK, SPARE, Walk


def after_first_step(found: int, *, limit: int = 50, look: int = 20_000) -> Walk:
    walk = Walk(limit, None, look)
    walk.add([f"{n}" for n in range(found)], walk.step, "last", ended=False)
    return walk


def test_the_first_step_is_small() -> None:
    assert Walk(50, None, 20_000).step == FIRST_LOOK
    assert Walk(50, None, 10).step == 10


def test_a_later_step_looks_at_what_the_page_seems_to_need() -> None:
    """A job in a hundred fits: another 4,100 jobs would fill the page."""
    assert after_first_step(10).step == int(SPARE * 4_100)


def test_a_later_step_is_never_smaller_than_the_first() -> None:
    assert after_first_step(50).step == FIRST_LOOK


def test_a_step_is_bounded_by_what_is_left_and_by_what_one_may_read() -> None:
    assert after_first_step(0).step == 19_000
    assert after_first_step(0, look=10**6).step == NEXT_LOOK
    assert after_first_step(1, look=10**6).step == NEXT_LOOK
