"""The mark of a store: a server that lacks it may not say that there is no such job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.job.ends import End
from holdfast.job.record import Progress
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import ProgressReport
from holdfast.store.contract.workers import Held
from holdfast.store.open import open_store
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.conformance.builders import LONG, RAISED, RETURNED, Scene, new_job
from tests.conformance.limiting import limited, through
from tests.conformance.streaming import frames_of
from tests.support.backends import opened
from tests.support.flows import Trip
from tests.support.proxy import proxy_to

UNKNOWN = "no store in this namespace"


@pytest.fixture(params=[1, 4], ids=["one partition", "four partitions"])
def partitions(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture
def another() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey()) as server:
        yield server


@pytest.mark.parametrize("end", [RETURNED, RAISED])
@pytest.mark.parametrize("options", [{}, through("tenant:a")], ids=["plain", "limits"])
async def test_no_end_is_refused_by_a_server_that_has_lost_the_store(
    scene: Scene, server: ThrowawayValkey, place: str, end: End, options: dict[str, Any]
) -> None:
    await limited(scene, tenant=5)
    job = await scene.running(**options)
    server.clear(place)
    with pytest.raises(StoreUnavailable, match=UNKNOWN):
        await scene.finish(job, end)


async def test_no_end_of_a_node_is_refused_by_a_server_that_has_lost_the_store(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    await Trip.begin(scene, {"a": [], "b": ["a"]})
    job = await scene.claim_one()
    server.clear(place)
    with pytest.raises(StoreUnavailable, match=UNKNOWN):
        await scene.finish(job)


async def test_no_worker_is_unknown_and_no_attempt_lost_on_such_a_server(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    job = await scene.running()
    server.clear(place)
    with pytest.raises(StoreUnavailable, match=UNKNOWN):
        await scene.store.workers.heartbeat(scene.worker, LONG, [Held(job.id, job.fence)])
    with pytest.raises(StoreUnavailable, match=UNKNOWN):
        await scene.store.steps.record([StepRecord(job.id, job.fence, "pay", 1, result="1")])
    with pytest.raises(StoreUnavailable, match=UNKNOWN):
        await scene.store.streams.append([frames_of(job)])
    report = ProgressReport(job.id, job.fence, Progress(0.5))
    with pytest.raises(StoreUnavailable, match=UNKNOWN):
        await scene.store.jobs.report_progress([report])


async def test_a_job_that_the_store_itself_lacks_is_refused(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    job = await scene.running()
    _forget(server, place, job.id)
    verdict = await scene.finish(job)
    assert (verdict.accepted, verdict.state) == (False, None)
    beat = await scene.store.workers.heartbeat(scene.worker, LONG, [Held(job.id, job.fence)])
    assert beat.lost == (job.id,)


async def test_a_master_that_has_become_a_replica_refuses_no_end(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    """It has the mark, and may lack what its master has."""
    job = await scene.running()
    _forget(server, place, job.id)
    server.say("REPLICAOF", "127.0.0.1", 1)
    try:
        with pytest.raises(StoreUnavailable, match="READONLY"):
            await scene.finish(job)
    finally:
        server.say("REPLICAOF", "NO", "ONE")
    assert not (await scene.finish(job)).accepted


def _forget(server: ThrowawayValkey, place: str, job: str) -> None:
    for key in server.keys(place):
        if key.endswith((f":s:{job}", f":b:{job}")):
            server.say("DEL", key)


async def test_a_sibling_makes_no_store_on_another_server(
    server: ThrowawayValkey, another: ThrowawayValkey, place: str
) -> None:
    async with proxy_to(place) as proxy, opened(proxy.url) as store:
        proxy.lead_to(another.url)
        with pytest.raises(StoreUnavailable, match=UNKNOWN):
            await store.sibling().open()
    assert another.keys(place) == []


async def test_a_program_that_began_on_an_empty_server_goes_over_to_the_older_store(
    server: ThrowawayValkey, another: ThrowawayValkey, place: str
) -> None:
    """A program that knows the older store does not go over to the younger one."""
    async with proxy_to(place) as proxy, opened(proxy.url) as old:
        await old.jobs.insert([new_job()])
        proxy.lead_to(another.url)
        async with opened(proxy.url) as new:
            assert await new.jobs.count(JobFilter()) == {}
            with pytest.raises(StoreUnavailable, match="a younger store in this namespace"):
                await old.jobs.count(JobFilter())
            proxy.lead_to(server.url)
            assert await new.jobs.count(JobFilter()) == {JobState.READY: 1}
        assert await old.jobs.count(JobFilter()) == {JobState.READY: 1}


async def test_a_store_that_is_opened_again_is_the_one_that_is_there_then(
    server: ThrowawayValkey, place: str
) -> None:
    store = open_store(place)
    for _ in range(2):
        await store.open()
        await store.jobs.insert([new_job()])
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}
        await store.close()
        server.clear(place)


async def test_a_store_that_was_lost_begins_again_when_programs_are_started_again(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    job = await scene.running()
    server.clear(place)
    async with opened(place, scene.clock) as store:
        assert await store.jobs.count(JobFilter()) == {}
        with pytest.raises(StoreUnavailable, match="a younger store in this namespace"):
            await scene.finish(job)
