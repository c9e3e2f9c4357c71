"""Keys of a Valkey store that something else removed or overwrote: a damaged job is put aside where
doctor shows it, and stops neither its queue nor a sweep nor a view."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ends import Cancelled, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.store.contract.records import Finding, JobFilter, Severity
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.conformance.builders import QUEUE, Scene, ids
from tests.support.backends import opened
from tests.support.leftovers import leftovers


@pytest.fixture(scope="module")
def own_server() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey()) as server:
        yield server


@pytest.fixture(params=[1, 4], ids=["one partition", "four partitions"])
async def place(request: pytest.FixtureRequest, own_server: ThrowawayValkey) -> AsyncIterator[str]:
    url = own_server.new_namespace(partitions=request.param)
    yield url
    own_server.clear(url)


@pytest.fixture
async def scene(place: str, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(place, clock) as store:
        yield await Scene.on(store, clock)


Damage = tuple[str, str | None]
DAMAGES: dict[str, Damage] = {
    "no record": ("s", None),
    "no record that can be read": ("s", "é"),
    "a record that is something else": ("s", "abc"),
    "an empty record": ("s", ""),
    "no body": ("b", None),
    "no body that can be read": ("b", "é"),
}
damaged = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


def harm(server: ThrowawayValkey, place: str, job: JobId, damage: Damage) -> None:
    kind, value = damage
    [key] = [key for key in server.keys(place) if key.endswith(f":{kind}:{job}")]
    if value is None:
        server.say("DEL", key)
    else:
        server.say("SET", key, value)


async def aside(scene: Scene) -> Finding:
    [found] = [f for f in await scene.store.health.check() if f.check == "jobs put aside"]
    return found


@damaged
@pytest.mark.parametrize("neighbours", [1, 20])
async def test_a_damaged_job_does_not_block_its_queue(
    scene: Scene, own_server: ThrowawayValkey, place: str, damage: Damage, neighbours: int
) -> None:
    before = await scene.enqueue_many(neighbours)
    job = await scene.enqueue()
    behind = await scene.enqueue_many(neighbours)
    assert (await aside(scene)).severity is Severity.OK
    harm(own_server, place, job, damage)
    claimed = await scene.claim(100)
    again = await scene.claim(100)
    assert ids([*claimed, *again]) == [*before, *behind]
    found = await aside(scene)
    assert found.severity is Severity.PROBLEM
    assert job in found.saw
    await scene.store.jobs.finish([decide(one, HandedBack()) for one in [*claimed, *again]])
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 2 * neighbours}
    assert await scene.line() == [*before, *behind]
    assert await leftovers(own_server, place) == []


@damaged
async def test_a_damaged_job_does_not_stop_promotion(
    scene: Scene, own_server: ThrowawayValkey, place: str, damage: Damage
) -> None:
    job = await scene.enqueue(delay=10.0)
    others = await scene.enqueue_many(3, delay=20.0)
    harm(own_server, place, job, damage)
    scene.clock.advance(30)
    await scene.store.jobs.promote_due(10)
    assert ids(await scene.claim(10)) == others
    assert job in (await aside(scene)).saw


@damaged
async def test_a_damaged_job_breaks_no_view_and_no_sweep(
    scene: Scene, own_server: ThrowawayValkey, place: str, damage: Damage
) -> None:
    job = await scene.enqueue(deadline_in=10.0)
    other = await scene.enqueue(deadline_in=10.0)
    harm(own_server, place, job, damage)
    scene.clock.advance(30)
    jobs, which = scene.store.jobs, JobFilter(tag=None, queues=(QUEUE,))
    assert ids((await jobs.page(which, 10)).jobs) == [other]
    assert ids(await jobs.get([job, other])) == ids(await jobs.live([job, other])) == [other]
    assert await jobs.outcomes([job, other]) == []
    assert ids(await jobs.past_deadline(10)) == [other]
    assert [queue.name for queue in await scene.store.queues.list()] == [QUEUE]
    await jobs.finish([decide(await scene.live(other), Cancelled())])
    await scene.claim(10)


@damaged
async def test_a_job_damaged_while_it_runs_fails_no_other_end(
    scene: Scene, own_server: ThrowawayValkey, place: str, damage: Damage
) -> None:
    await scene.enqueue_many(3)
    claimed = await scene.claim(3)
    harm(own_server, place, claimed[1].id, damage)
    verdicts = await scene.store.jobs.finish([decide(job, Cancelled()) for job in claimed])
    assert [verdicts[0].accepted, verdicts[2].accepted] == [True, True]
