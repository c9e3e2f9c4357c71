"""Limits: what operators and programs say about them, and how buckets are shown."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import BadOption
from holdfast.limits.model import Concurrency, LimitInfo, Rate, Settings
from holdfast.store.contract.wakeups import Topic, Wakeup
from tests.conformance.builders import QUEUE, Scene
from tests.conformance.limiting import (
    begun,
    bucket,
    in_use,
    limited,
    nothing_is_wrong,
    of,
    through,
)
from tests.support.waiting import wait_until


async def test_a_declared_limit_is_found(scene: Scene) -> None:
    await limited(scene, tenant=5, host=2)
    assert await scene.store.limits.find() == [
        LimitInfo(name="host", settings=Concurrency(2)),
        LimitInfo(name="tenant", settings=Concurrency(5)),
    ]
    assert [one.name for one in await scene.store.limits.find(["tenant", "none"])] == ["tenant"]


async def test_declaring_nothing_changes_nothing(scene: Scene) -> None:
    await scene.store.limits.declare({})
    assert await scene.store.limits.find() == []
    assert await scene.store.limits.get([]) == []
    assert await scene.store.limits.retire([]) == []
    assert await scene.store.limits.of([]) == {}
    assert await scene.store.limits.opens_in() is None


async def test_a_declaration_changes_what_no_operator_has_edited(scene: Scene) -> None:
    await limited(scene, tenant=5)
    await limited(scene, tenant=6)
    [found] = await scene.store.limits.find()
    assert (found.settings, found.edited, found.revision) == (Concurrency(6), False, 2)
    put = await scene.store.limits.put("tenant", Concurrency(9))
    assert (put.settings, put.edited, put.revision) == (Concurrency(9), True, 3)
    await limited(scene, tenant=5)
    assert await scene.store.limits.find() == [put]


@pytest.mark.parametrize("edited", [False, True])
async def test_a_program_cannot_declare_a_limit_of_another_kind(scene: Scene, edited: bool) -> None:
    """Also while nothing runs: jobs of the other program would pass what its code does not say."""
    await limited(scene, tenant=5)
    if edited:
        await scene.store.limits.put("tenant", Concurrency(4))
    before = await scene.store.limits.find()
    with pytest.raises(BadOption, match=r"a concurrency, .*limits retire tenant.*got Rate"):
        await scene.store.limits.declare({"new": Concurrency(1), "tenant": Rate(5, per=1)})
    assert await scene.store.limits.find() == before


@pytest.mark.parametrize("edited", [False, True])
async def test_a_retired_limit_may_be_declared_as_another_kind(scene: Scene, edited: bool) -> None:
    """An edit of the other kind says nothing about the new one, and must not bring it back."""
    await limited(scene, tenant=1)
    if edited:
        await scene.store.limits.put("tenant", Concurrency(1))
        await scene.store.limits.override("tenant", "a", Concurrency(2))
    [held] = await begun(scene, 1, "tenant:a")
    await scene.store.limits.retire(["tenant"])
    await scene.store.limits.declare({"tenant": Rate(2, per=64)})
    [found] = await scene.store.limits.find()
    assert (found.settings, found.edited, found.retired) == (Rate(2, per=64), False, False)
    assert (await bucket(scene, "tenant:a")).override is None
    jobs = await scene.enqueue_many(3, **through("tenant:a"))
    assert of(await scene.claim(10)) == jobs[:2]
    assert (await scene.finish(held)).accepted
    await nothing_is_wrong(scene)


async def test_an_edit_outlives_that_its_limit_is_retired(scene: Scene) -> None:
    await limited(scene, tenant=1)
    await scene.store.limits.put("tenant", Concurrency(3))
    await scene.store.limits.retire(["tenant"])
    await limited(scene, tenant=1)
    [found] = await scene.store.limits.find()
    assert (found.settings, found.edited, found.retired) == (Concurrency(3), True, False)


async def test_of_two_programs_that_declare_at_once_one_is_refused(scene: Scene) -> None:
    kinds: list[Settings] = [Concurrency(1), Rate(1, per=1)]
    answers = await asyncio.gather(
        *(scene.store.limits.declare({"tenant": one}) for one in kinds), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in answers) == ["BadOption", "NoneType"]
    [found] = await scene.store.limits.find()
    assert found.settings == kinds[answers.index(None)]


async def test_a_raised_limit_counts_at_once(scene: Scene) -> None:
    await limited(scene, tenant=1)
    jobs = await scene.enqueue_many(4, **through("tenant:a"))
    assert len(await scene.claim(10)) == 1
    assert await scene.claim(10) == []
    await scene.store.limits.put("tenant", Concurrency(3))
    assert of(await scene.claim(10)) == jobs[1:3]
    assert await scene.claim(10) == []


async def test_a_lowered_limit_stops_nothing_that_runs(scene: Scene) -> None:
    await limited(scene, tenant=4)
    held = await begun(scene, 4, "tenant:a")
    await scene.store.limits.put("tenant", Concurrency(2))
    waiting = await scene.enqueue(**through("tenant:a"))
    for job in held[:2]:
        assert await scene.claim(10) == []
        assert (await scene.finish(job)).accepted
    assert await scene.claim(10) == []
    await scene.finish(held[2])
    assert of(await scene.claim(10)) == [waiting]
    await nothing_is_wrong(scene)


async def test_one_key_may_have_settings_of_its_own(scene: Scene) -> None:
    await limited(scene, tenant=1)
    await scene.enqueue_many(3, **through("tenant:a"))
    await scene.enqueue_many(3, **through("tenant:b"))
    assert len(await scene.claim(10)) == 2
    found = await scene.store.limits.override("tenant", "a", Concurrency(3))
    assert (found.settings, found.override) == (Concurrency(3), Concurrency(3))
    assert len(await scene.claim(10)) == 2
    assert (await bucket(scene, "tenant:b")).override is None
    await scene.store.limits.put("tenant", Concurrency(2))
    assert len(await scene.claim(10)) == 1
    inherited = await scene.store.limits.override("tenant", "a", None)
    assert (inherited.settings, inherited.override) == (Concurrency(2), None)


async def test_an_override_needs_a_limit(scene: Scene) -> None:
    with pytest.raises(BadOption, match="defined"):
        await scene.store.limits.override("tenant", "a", Concurrency(3))


async def test_a_retired_limit_holds_nothing_up(scene: Scene) -> None:
    await limited(scene, tenant=1)
    jobs = await scene.enqueue_many(3, **through("tenant:a"))
    held = await scene.claim(10)
    assert await scene.claim(10) == []
    assert await scene.store.limits.retire(["tenant", "none"]) == ["tenant"]
    held += await scene.claim(10)
    assert of(held) == jobs
    await limited(scene, tenant=1)
    [found] = await scene.store.limits.find()
    assert not found.retired
    for job in held:
        await scene.finish(job)
    assert await in_use(scene, "tenant:a") == 0
    await nothing_is_wrong(scene)


async def test_a_drained_bucket_opens_when_its_time_is_over(scene: Scene) -> None:
    await limited(scene, host=5)
    job = await scene.enqueue(**through("host:x"))
    await scene.store.limits.drain({"host:x": 30.0})
    assert await scene.claim(10) == []
    scene.clock.advance(10)
    found = await bucket(scene, "host:x")
    assert (found.drained_for, found.opens_in, found.waiting) == (20.0, 20.0, 1)
    scene.clock.advance(20)
    assert (await bucket(scene, "host:x")).drained_for is None
    assert of(await scene.claim(10)) == [job]


async def test_an_operator_may_end_a_drain(scene: Scene) -> None:
    await limited(scene, host=5)
    job = await scene.enqueue(**through("host:x"))
    await scene.store.limits.drain({"host:x": 30.0})
    assert await scene.claim(10) == []
    await scene.store.limits.drain({"host:x": 0.0})
    assert of(await scene.claim(10)) == [job]


async def test_a_bucket_is_shown_also_if_it_has_no_row(scene: Scene) -> None:
    await limited(scene, tenant=5)
    found = await scene.store.limits.get(["tenant:b", "none:x", "tenant:a"])
    assert [one.name for one in found] == ["tenant:b", "none:x", "tenant:a"]
    assert [one.settings for one in found] == [Concurrency(5), None, Concurrency(5)]
    assert [one.opens_in for one in found] == [0.0, None, 0.0]
    assert (found[2].limit, found[2].key) == ("tenant", "a")


async def test_the_buckets_of_a_limit_come_in_pages(scene: Scene) -> None:
    await limited(scene, tenant=1, tenants=1)
    for key in "cab":
        await begun(scene, 1, f"tenant:{key}")
    await begun(scene, 1, "tenants:z")
    page = await scene.store.limits.buckets("tenant", 2)
    assert [one.name for one in page] == ["tenant:a", "tenant:b"]
    assert [one.in_use for one in page] == [1, 1]
    rest = await scene.store.limits.buckets("tenant", 2, page[-1].name)
    assert [one.name for one in rest] == ["tenant:c"]
    [found] = await scene.store.limits.find(["tenant"])
    assert found.buckets == 3


async def test_the_holders_of_a_bucket_are_its_running_jobs(scene: Scene) -> None:
    await limited(scene, tenant=3)
    [first] = await begun(scene, 1, "tenant:a", "tenant:ab")
    scene.clock.advance(5)
    [second] = await begun(scene, 1, "tenant:a")
    await begun(scene, 1, "tenant:ab")
    found = await scene.store.limits.holders("tenant:a", 10)
    assert [one.job_id for one in found] == [first.id, second.id]
    assert (found[0].worker_id, found[0].claimed_at) == (scene.worker, first.claimed_at)
    assert await scene.store.limits.holders("tenant:a", 1) == found[:1]


async def test_a_recount_goes_page_by_page_and_finds_nothing(scene: Scene) -> None:
    await limited(scene, tenant=3)
    for key in "abc":
        await begun(scene, 2, f"tenant:{key}")
    first = await scene.store.limits.recount(2)
    assert (first.buckets, first.wrong, first.cursor) == (2, (), "tenant:b")
    second = await scene.store.limits.recount(2, first.cursor)
    assert (second.buckets, second.wrong, second.cursor) == (1, (), None)


async def test_an_idle_bucket_is_forgotten(scene: Scene) -> None:
    await limited(scene, tenant=3)
    [idle] = await begun(scene, 1, "tenant:idle")
    await begun(scene, 1, "tenant:busy")
    await scene.finish(idle)
    await scene.store.limits.override("tenant", "own", Concurrency(9))
    scene.clock.advance(61)
    await scene.store.limits.recount(10, idle_for=60.0)
    left = [one.name for one in await scene.store.limits.buckets("tenant", 10)]
    assert left == ["tenant:busy", "tenant:own"]


@pytest.mark.parametrize("how", ["finish", "put", "retire", "override", "undrain"])
async def test_whoever_makes_room_wakes_those_who_wait(scene: Scene, how: str) -> None:
    await limited(scene, tenant=1)
    heard: list[Wakeup] = []
    [held] = await begun(scene, 1, "tenant:a")
    await scene.enqueue(**through("tenant:a"))
    assert await scene.claim(10) == []
    if how == "undrain":
        await scene.finish(held)
        await scene.store.limits.drain({"tenant:a": 60.0})
        assert await scene.claim(10) == []
    unsubscribe = await scene.store.wakeups.subscribe(heard.append)
    match how:
        case "finish":
            await scene.finish(held)
        case "put":
            await scene.store.limits.put("tenant", Concurrency(2))
        case "retire":
            await scene.store.limits.retire(["tenant"])
        case "override":
            await scene.store.limits.override("tenant", "a", Concurrency(2))
        case _:
            await scene.store.limits.drain({"tenant:a": 0.0})
    await wait_until(
        lambda: any((one.topic, one.name) == (Topic.READY, QUEUE) for one in heard), 10, "a wakeup"
    )
    unsubscribe()


async def test_a_store_without_limits_has_no_bucket(scene: Scene) -> None:
    """Plain jobs touch nothing of it."""
    await scene.finish(await scene.running())
    assert (await scene.store.limits.recount(10)).buckets == 0
