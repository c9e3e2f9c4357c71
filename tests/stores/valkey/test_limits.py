"""Limits in Lua: the arithmetic of `holdfast.limits.admission`, and the calendars it counts by."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from holdfast.limits.admission import Bucket, never_granted
from holdfast.limits.model import Budget, Concurrency, Rate, Settings
from holdfast.store.contract.limits import Take, Taken
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.valkey import buckets
from holdfast.store.valkey.moments import to_micros
from tests.conformance.builders import QUEUE, Scene, new_job
from tests.conformance.limiting import begun, bucket, limited, through
from tests.support.waiting import wait_until

NAME = "x:a"
DAY = 86_400.0
STEPS = 40
WAYS: dict[str, list[Settings]] = {
    "a window": [Rate(7, per=10.0), Rate(9, per=3.3), Rate(5, per=640.0)],
    "a narrow window": [Rate(3, per=0.001), Rate(2, per=0.5)],
    "a meter": [Rate(7, per=10.0, burst=3), Rate(11, per=10.0, burst=9), Rate(1, per=7.0, burst=2)],
    "a fast meter": [Rate(1000, per=1.0, burst=50), Rate(999, per=60.0, burst=70)],
    "a budget of an hour": [Budget(50, soft=20, every="hour", timezone="Asia/Kolkata")],
    "a budget of a day": [
        Budget(50, every="day", timezone="Europe/Berlin"),
        Budget(30, every="day"),
    ],
    "a budget of a month": [Budget(50, every="month", timezone="America/New_York")],
    "a budget of some seconds": [Budget(50, every=90.0), Budget(10**15, every=12.5)],
    "a budget without end": [Budget(50), Budget(90, soft=40)],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(2))
async def test_a_script_counts_as_the_pure_code_does(scene: Scene, way: str, seed: int) -> None:
    chance, choices = random.Random(seed), WAYS[way]
    limits = scene.store.limits
    await limits.put("x", choices[0])
    model, granted = Bucket(NAME, choices[0]), list[Take]()
    for _ in range(STEPS):
        now, units = to_micros(scene.clock.now), chance.randint(1, 4)
        match chance.randrange(8):
            case 0 | 1 | 2:
                [taken] = await limits.take([Take(NAME, units)])
                assert taken == _taken(model, units, now)
                granted += [Take(NAME, units, at=taken.at)] if taken.granted else []
            case 3 if granted:
                back = granted.pop(chance.randrange(len(granted)))
                await limits.give([back])
                _give(model, back, now)
            case 4:
                model.settings = chance.choice(choices)
                await limits.put("x", model.settings)
            case _:
                scene.clock.advance(chance.choice([0.0001, 0.07, 1.0, 5.0, 37.0, 4000.0, DAY]))
        await _looks_like(scene, model)


def _taken(model: Bucket, units: int, now: int) -> Taken:
    opens = model.opens_at(now, units)
    if opens is None:
        return Taken(False, refused=never_granted(model, units, now))
    if opens > now:
        return Taken(False, wait=(opens - now) / 1e6)
    if isinstance(model.settings, Budget):
        model.spend(units, now)
    else:
        model.take(units, now)
    return Taken(True, at=now)


def _give(model: Bucket, back: Take, now: int) -> None:
    if isinstance(model.settings, Budget):
        model.spend(-back.units, now)
    else:
        model.untake(back.units, back.at, now)


async def _looks_like(scene: Scene, model: Bucket) -> None:
    """What Python computes from the row, and what the script says when it is asked for more than
    there is."""
    now, found = to_micros(scene.clock.now), await bucket(scene, NAME)
    assert (found.room, found.spent) == (model.room(now), model.counted(now))
    more = found.room + 1
    if model.settings is not None and more <= model.settings.largest:
        assert await scene.store.limits.take([Take(NAME, more)]) == [_taken(model, more, now)]


@pytest.mark.parametrize("every", ["hour", "day", "month"])
async def test_a_calendar_is_looked_up_ahead(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, every: str
) -> None:
    """A script does not know time zones: it is told when periods begin, and told again later."""
    monkeypatch.setattr(buckets, "KNOWN_PERIODS", 5)
    settings = Budget(9, every=every, timezone="Europe/Berlin")  # type: ignore[arg-type]
    await scene.store.limits.put("x", settings)
    for _ in range(30):
        await scene.store.limits.recount(100)
        await scene.store.limits.take([Take(NAME, 9)])
        period = settings.period(to_micros(scene.clock.now))
        [refused] = await scene.store.limits.take([Take(NAME)])
        assert period.end is not None
        assert refused.wait == (period.end - to_micros(scene.clock.now)) / 1e6
        scene.clock.advance(refused.wait)
        if every == "hour":
            scene.clock.advance(DAY)


async def test_hours_beyond_the_calendar_are_as_long_as_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "KNOWN_PERIODS", 5)
    await scene.store.limits.put("x", Budget(9, every="hour"))
    scene.clock.advance(100 * DAY + 60.0)
    await scene.store.limits.take([Take(NAME, 9)])
    [refused] = await scene.store.limits.take([Take(NAME)])
    hour = Budget(9, every="hour").period(to_micros(scene.clock.now))
    assert hour.end is not None
    assert refused.wait == (hour.end - to_micros(scene.clock.now)) / 1e6


async def test_who_was_cut_short_by_a_full_bucket_hears_of_room_elsewhere(scene: Scene) -> None:
    """The claim that took the last permits leaves nobody behind who would not be woken."""
    await limited(scene, tenant=3)
    other = await scene.hire()
    [held] = await begun(scene, 1, "tenant:a")
    await scene.enqueue_many(5, **through("tenant:a"))
    assert len(await scene.claim(10, worker=other)) == 2
    heard: list[Wakeup] = []
    stop: Callable[[], None] = await scene.store.wakeups.subscribe(heard.append)
    await scene.finish(held)
    ready = (Topic.READY, QUEUE)
    await wait_until(lambda: ready in [(one.topic, one.name) for one in heard], 10, "a wakeup")
    stop()


async def test_a_claim_lets_no_more_lines_wait_than_it_has_time_for(scene: Scene) -> None:
    """Who stands behind them is served by one of the next claims, to which workers are woken."""
    await limited(scene, tenant=9, all=1)
    await begun(scene, 1, "all:")
    for first in range(0, 1500, 500):
        keys = range(first, first + 500)
        await scene.store.jobs.insert([new_job(**through("all:", f"tenant:{n}")) for n in keys])
    last = await scene.enqueue(**through("tenant:z"))
    heard: list[Wakeup] = []
    stop = await scene.store.wakeups.subscribe(heard.append)
    assert await scene.claim(1) == []
    assert 1000 <= (await bucket(scene, "all:")).waiting < 1100
    ready = (Topic.READY, QUEUE)
    await wait_until(lambda: ready in [(one.topic, one.name) for one in heard], 10, "a wakeup")
    stop()
    assert [job.id for job in await scene.claim(1)] == [last]


async def test_room_that_was_kept_for_another_line_is_not_forgotten(scene: Scene) -> None:
    """The first line that is let go on meets another full bucket: workers hear of the next."""
    await limited(scene, host=2, tenant=1)
    held = await begun(scene, 1, "host:", "tenant:a") + await begun(scene, 1, "host:")
    await scene.enqueue(**through("host:", "tenant:a"))
    other = await scene.enqueue(**through("host:", "tenant:b"))
    assert await scene.claim(10) == []
    await scene.finish(held[1])
    heard: list[Wakeup] = []
    stop = await scene.store.wakeups.subscribe(heard.append)
    assert await scene.claim(10) == []
    ready = (Topic.READY, QUEUE)
    await wait_until(lambda: ready in [(one.topic, one.name) for one in heard], 10, "a wakeup")
    stop()
    assert [one.id for one in await scene.claim(10)] == [other]


async def test_a_parent_without_settings_of_its_own_lets_go_of_those_who_wait(scene: Scene) -> None:
    """It has spent all that its limit lets a key spend, but that is no amount of its own."""
    limits = scene.store.limits
    await limits.put("tokens", Budget(9))
    await limits.override("tokens", "acme", Budget(9))
    [taken] = await limits.take([Take("tokens:acme/x", 9, ("tokens:acme",))])
    assert taken.granted
    job = await scene.enqueue(**through("tokens:acme", "tokens:acme/ml"), costs="5,5")
    assert await scene.claim(10) == []
    assert (await bucket(scene, "tokens:acme")).waiting == 1
    await limits.override("tokens", "acme", None)
    assert [one.id for one in await scene.claim(10)] == [job]


async def test_a_line_that_never_passes_holds_nobody_up_and_goes_on_when_it_can(
    scene: Scene,
) -> None:
    """The limit was lowered after the job was enqueued, and is raised again."""
    await limited(scene, memory=10)
    big = await scene.enqueue(**through("memory:"), costs="8")
    await scene.store.limits.put("memory", Concurrency(5))
    small = await scene.enqueue(priority=1, **through("memory:"), costs="2")
    assert [job.id for job in await scene.claim(10)] == [small]
    assert await scene.claim(10) == []
    found = await bucket(scene, "memory:")
    assert (found.waiting, found.needs) == (1, None)
    await scene.store.limits.put("memory", Concurrency(10))
    assert [job.id for job in await scene.claim(10)] == [big]
