"""Rates: how many jobs begin in a time."""

from __future__ import annotations

import pytest

from holdfast.errors import BadOption
from holdfast.job.ends import HandedBack, PutOff
from holdfast.limits.model import Concurrency, Rate
from holdfast.store.contract.limits import MOST_OPENINGS, Take
from tests.conformance.builders import RAISED, RETURNED, Scene
from tests.conformance.limiting import (
    at_cost,
    begun,
    bucket,
    costing,
    define,
    limited,
    nothing_is_wrong,
    of,
    through,
)

LEFT_OVER = 64 / 64
"""A start counts for a 64th of the window more."""


async def test_no_more_jobs_begin_in_a_window_than_the_rate_allows(scene: Scene) -> None:
    await define(scene, github=Rate(3, per=64))
    jobs = await scene.enqueue_many(7, **through("github:"))
    first = await scene.claim(10)
    assert of(first) == jobs[:3]
    for job in first:
        await scene.finish(job)
    assert await scene.claim(10) == [], "ends give a rate nothing back"
    scene.clock.advance(63.9)
    assert await scene.claim(10) == []
    scene.clock.advance(0.1 + LEFT_OVER)
    assert of(await scene.claim(10)) == jobs[3:6]
    await nothing_is_wrong(scene)


async def test_a_window_slides(scene: Scene) -> None:
    """Never more in any window: not twice as many around the edge of one."""
    await define(scene, github=Rate(2, per=64))
    await scene.enqueue_many(4, **through("github:"))
    assert len(await scene.claim(1)) == 1
    scene.clock.advance(60)
    assert len(await scene.claim(10)) == 1
    scene.clock.advance(4 + LEFT_OVER)
    assert len(await scene.claim(10)) == 1
    assert await scene.claim(10) == []
    found = await bucket(scene, "github:")
    assert (found.spent, found.room, found.waiting) == (2, 0, 1)
    assert found.opens_in is not None
    assert 55 <= found.opens_in <= 60 + LEFT_OVER


async def test_a_worker_is_told_when_a_rate_opens(scene: Scene) -> None:
    await define(scene, github=Rate(1, per=64))
    await scene.enqueue_many(2, **through("github:"))
    await scene.claim(1)
    assert await scene.claim(1) == []
    opens_in = await scene.store.limits.opens_in()
    assert opens_in is not None
    assert 64 <= opens_in <= 64 + LEFT_OVER
    scene.clock.advance(opens_in)
    assert len(await scene.claim(1)) == 1


async def test_a_burst_may_begin_at_once_and_the_rest_one_by_one(scene: Scene) -> None:
    await define(scene, github=Rate(3, per=1, burst=5))
    await scene.enqueue_many(20, **through("github:"))
    assert len(await scene.claim(20)) == 5
    assert await scene.claim(20) == []
    scene.clock.advance(0.333333)
    assert await scene.claim(20) == []
    scene.clock.advance(0.000001)
    assert len(await scene.claim(20)) == 1
    scene.clock.advance(1)
    assert len(await scene.claim(20)) == 3
    scene.clock.advance(100)
    assert len(await scene.claim(20)) == 5, "no more than a burst is saved"


async def test_a_rate_counts_costs(scene: Scene) -> None:
    await define(scene, tokens=Rate(100, per=10, burst=100))
    jobs = [await scene.enqueue(**costing(tokens=60)) for _ in range(2)]
    assert of(await scene.claim(10)) == jobs[:1]
    assert await scene.claim(10) == []
    assert (await bucket(scene, "tokens:")).opens_in == 2.0
    scene.clock.advance(2)
    assert of(await scene.claim(10)) == jobs[1:]


@pytest.mark.parametrize("rate", [Rate(2, per=64), Rate(2, per=64, burst=2)])
async def test_an_attempt_that_was_not_begun_gives_a_rate_back(scene: Scene, rate: Rate) -> None:
    await define(scene, github=rate)
    held = await begun(scene, 2, "github:")
    await scene.finish(held[0], HandedBack(begun=False))
    assert (await bucket(scene, "github:")).room == 1
    [again] = await scene.claim(10)
    assert again.id == held[0].id
    await scene.finish(again, PutOff(10, "later"))
    assert (await bucket(scene, "github:")).room == 1


@pytest.mark.parametrize("end", [RETURNED, RAISED, HandedBack()])
async def test_an_attempt_that_was_begun_gives_a_rate_nothing_back(
    scene: Scene, end: HandedBack
) -> None:
    await define(scene, github=Rate(1, per=64))
    [held] = await begun(scene, 1, "github:")
    await scene.finish(held, end)
    found = await bucket(scene, "github:")
    assert (found.room, found.in_use) == (0, 0)


async def test_what_is_given_back_is_the_start_that_was_counted(scene: Scene) -> None:
    """Not a later one, whose job goes on."""
    await define(scene, github=Rate(2, per=64))
    [first] = await begun(scene, 1, "github:")
    scene.clock.advance(60)
    await begun(scene, 1, "github:")
    await scene.finish(first, HandedBack(begun=False))
    scene.clock.advance(6)
    assert (await bucket(scene, "github:")).room == 1


async def test_what_has_grown_back_is_not_given_back_again(scene: Scene) -> None:
    await define(scene, github=Rate(1, per=1, burst=1))
    [first] = await begun(scene, 1, "github:")
    scene.clock.advance(1)
    await begun(scene, 1, "github:")
    await scene.finish(first, HandedBack(begun=False))
    assert (await bucket(scene, "github:")).room == 0


async def test_several_rates_hold_at_once(scene: Scene) -> None:
    await define(scene, second=Rate(2, per=1), hour=Rate(3, per=3600))
    await scene.enqueue_many(9, **through("second:", "hour:"))
    assert len(await scene.claim(9)) == 2
    scene.clock.advance(2)
    assert len(await scene.claim(9)) == 1
    scene.clock.advance(2)
    assert await scene.claim(9) == []


async def test_a_rate_that_is_raised_or_lowered_counts_what_began_before(scene: Scene) -> None:
    await define(scene, github=Rate(4, per=64))
    await scene.enqueue_many(20, **through("github:"))
    assert len(await scene.claim(20)) == 4
    await scene.store.limits.put("github", Rate(6, per=64))
    assert len(await scene.claim(20)) == 2
    await scene.store.limits.put("github", Rate(6, per=640))
    scene.clock.advance(66)
    assert await scene.claim(20) == [], "the window is longer now, and they lie in it"
    scene.clock.advance(600)
    assert len(await scene.claim(20)) == 6


async def test_a_burst_keeps_its_level_when_the_rate_changes(scene: Scene) -> None:
    await define(scene, github=Rate(1, per=1, burst=10))
    await begun(scene, 10, "github:")
    await scene.store.limits.put("github", Rate(3, per=7, burst=10))
    found = await bucket(scene, "github:")
    assert (found.spent, found.room) == (10, 0)


async def test_a_rate_of_none_lets_none_begin(scene: Scene) -> None:
    await define(scene, shut=Rate(0, per=1), dry=Rate(0, per=1, burst=3))
    await scene.enqueue(**through("shut:"))
    await scene.enqueue(**through("dry:"))
    assert await scene.claim(10) == []


async def test_a_kind_is_not_changed_while_it_counts(scene: Scene) -> None:
    await limited(scene, github=1)
    [held] = await begun(scene, 1, "github:")
    with pytest.raises(BadOption, match="running"):
        await scene.store.limits.put("github", Rate(1, per=64))
    await scene.finish(held)
    await scene.store.limits.override("github", "own", Concurrency(4))
    await scene.store.limits.put("github", Rate(1, per=64))
    assert (await bucket(scene, "github:own")).override is None
    [held] = await begun(scene, 1, "github:")
    await scene.finish(held)
    await scene.store.limits.put("github", Concurrency(2))
    assert (await bucket(scene, "github:")).room == 2


@pytest.mark.parametrize("of_a_key", [False, True])
@pytest.mark.parametrize("burst", [None, 5])
async def test_a_rate_whose_burst_comes_and_goes_counts_with_its_own_books(
    scene: Scene, burst: int | None, of_a_key: bool
) -> None:
    """What was counted before would be taken for up to 64 times as much, and for something new."""
    limits = scene.store.limits
    one, other = (Rate(1, per=3600, burst=each) for each in (burst, 5 if burst is None else None))
    await define(scene, github=one)

    async def change(settings: Rate | None) -> None:
        if of_a_key:
            await limits.override("github", "", settings)
        else:
            await limits.put("github", settings or one)

    [taken] = await limits.take([Take("github:", 1)])
    await change(other)
    [taken_too] = await limits.take([Take("github:", 1)])
    assert taken.granted
    assert taken_too.granted
    scene.clock.advance(10 * 3600)
    await change(None)
    assert (await bucket(scene, "github:")).spent == 0
    assert (await bucket(scene, "github:")).room == one.largest


async def test_a_rate_that_is_still_counted_is_not_forgotten(scene: Scene) -> None:
    await define(scene, github=Rate(1, per=640), burst=Rate(1, per=640, burst=1))
    for held in (await begun(scene, 1, "github:"), await begun(scene, 1, "burst:")):
        await scene.finish(held[0])
    scene.clock.advance(100)
    assert (await scene.store.limits.recount(10, idle_for=60.0)).forgotten == 0
    scene.clock.advance(600)
    assert (await scene.store.limits.recount(10, idle_for=60.0)).forgotten == 2


async def test_a_drain_and_a_rate_hold_both(scene: Scene) -> None:
    await define(scene, github=Rate(1, per=64))
    await begun(scene, 1, "github:")
    job = await scene.enqueue(**at_cost({"github:": 1}))
    await scene.store.limits.drain({"github:": 100.0})
    assert await scene.claim(1) == []
    assert await scene.store.limits.opens_in() == 100.0
    scene.clock.advance(100)
    assert of(await scene.claim(1)) == [job]


async def test_when_a_limit_opens_is_said_for_each_queue(scene: Scene) -> None:
    limits = scene.store.limits
    await define(scene, soon=Rate(1, per=6.4), later=Rate(1, per=64))
    for queue, limit in (("a", "soon:"), ("b", "later:")):
        await scene.enqueue_many(2, queue=queue, **through(limit))
        assert len(await scene.claim(2, queue)) == 1
    soon, later = await limits.opens_in(["a"]), await limits.opens_in(["b"])
    assert soon is not None
    assert later is not None
    assert 0 < soon < 7 < 60 < later < 66
    assert await limits.opens_in() == await limits.opens_in(["a", "b"]) == soon
    assert await limits.opens_in(["c"]) is None
    scene.clock.advance(soon)
    assert len(await scene.claim(2, "a")) == 1
    assert await limits.opens_in(["a"]) is None, "nobody waits there any more"


async def test_where_very_many_wait_the_next_opening_is_never_said_too_late(scene: Scene) -> None:
    limits = scene.store.limits
    await define(scene, soon=Rate(1, per=6.4))
    await scene.enqueue_many(1, queue="b", **through("soon:"))
    assert len(await scene.claim(1, "b")) == 1
    for n in range(MOST_OPENINGS + 1):
        await scene.enqueue(queue="a", **through("soon:", fair=f"tenant {n}"))
    assert await scene.claim(200, "a") == []
    opens_in = await limits.opens_in(["b"])
    assert opens_in == await limits.opens_in(["a"]) is not None, "one of its lines may wait behind"


async def test_a_start_that_comes_with_an_older_time_is_counted_with_the_others(
    scene: Scene,
) -> None:
    """Who waited for the bucket has an older time than the one it waited for."""
    await define(scene, github=Rate(9, per=64))
    scene.clock.advance(0.5)
    for seconds in (0, 1, -1, 1, -1):
        scene.clock.advance(seconds)
        await scene.store.limits.take([Take("github:", 1)])
    assert (await bucket(scene, "github:")).spent == 5
    held = await begun(scene, 4, "github:")
    await scene.enqueue(**through("github:"))
    assert (await scene.claim(1), len(held)) == ([], 4)
    assert not (await scene.store.limits.take([Take("github:", 1)]))[0].granted


async def test_a_start_that_comes_with_an_older_time_lets_no_burst_grow_twice(scene: Scene) -> None:
    await define(scene, github=Rate(1, per=1, burst=10))
    granted = []
    for seconds in (10, -5, 5):
        scene.clock.advance(seconds)
        granted += await scene.store.limits.take([Take("github:", 5)])
    assert [one.granted for one in granted] == [True, True, False]
    scene.clock.advance(1)
    assert (await bucket(scene, "github:")).free == 1
