"""Keys of a Valkey store that something else removed or overwrote: a damaged job is put aside where
doctor shows it, and stops neither its queue nor a sweep nor a view."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.errors import StoreError
from holdfast.job.ends import Cancelled, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Finding, Severity
from holdfast.store.valkey.layout import Record, width
from holdfast.store.valkey.rows import to_record
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import QUEUE, Scene, ids
from tests.support.leftovers import leftovers


@pytest.fixture(params=[1, 4], ids=["one partition", "four partitions"])
def partitions(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


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
    scene: Scene, server: ThrowawayValkey, place: str, damage: Damage, neighbours: int
) -> None:
    before = await scene.enqueue_many(neighbours)
    job = await scene.enqueue()
    behind = await scene.enqueue_many(neighbours)
    assert (await aside(scene)).severity is Severity.OK
    harm(server, place, job, damage)
    claimed = await scene.claim(100)
    again = await scene.claim(100)
    assert ids([*claimed, *again]) == [*before, *behind]
    found = await aside(scene)
    assert found.severity is Severity.PROBLEM
    assert job in found.saw
    await scene.store.jobs.finish([decide(one, HandedBack()) for one in [*claimed, *again]])
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 2 * neighbours}
    assert await scene.line() == [*before, *behind]
    assert await leftovers(place) == []


@damaged
async def test_a_damaged_job_does_not_stop_promotion(
    scene: Scene, server: ThrowawayValkey, place: str, damage: Damage
) -> None:
    job = await scene.enqueue(delay=10.0)
    others = await scene.enqueue_many(3, delay=20.0)
    harm(server, place, job, damage)
    scene.clock.advance(30)
    await scene.store.jobs.promote_due(10)
    assert ids(await scene.claim(10)) == others
    assert job in (await aside(scene)).saw


@damaged
async def test_a_damaged_job_breaks_no_view_and_no_sweep(
    scene: Scene, server: ThrowawayValkey, place: str, damage: Damage
) -> None:
    job = await scene.enqueue(deadline_in=10.0)
    other = await scene.enqueue(deadline_in=10.0)
    harm(server, place, job, damage)
    scene.clock.advance(30)
    jobs, which = scene.store.jobs, JobFilter(queues=(QUEUE,))
    assert ids((await jobs.page(which, 10)).jobs) == [other]
    assert ids(await jobs.get([job, other])) == ids(await jobs.live([job, other])) == [other]
    assert await jobs.outcomes([job, other]) == []
    assert ids(await jobs.past_deadline(10)) == [other]
    assert [queue.name for queue in await scene.store.queues.find()] == [QUEUE]
    await jobs.finish([decide(await scene.live(other), Cancelled())])
    await scene.claim(10)


@damaged
async def test_a_job_damaged_while_it_runs_fails_no_other_end(
    scene: Scene, server: ThrowawayValkey, place: str, damage: Damage
) -> None:
    await scene.enqueue_many(3)
    claimed = await scene.claim(3)
    harm(server, place, claimed[1].id, damage)
    verdicts = await scene.store.jobs.finish([decide(job, Cancelled()) for job in claimed])
    assert [verdicts[0].accepted, verdicts[2].accepted] == [True, True]


async def test_a_state_that_nobody_knows_is_shown_by_a_doctor_and_moved_by_nobody(
    scene: Scene,
) -> None:
    job = await scene.enqueue(delay=60.0)
    await _rewrite(scene, job, state="parked")
    jobs = scene.store.jobs
    assert await jobs.reprioritise([job], 3) == await jobs.move([job], "other") == []
    assert await jobs.requeue([job]) == await jobs.delete([job]) == []
    assert await jobs.live([job]) == []
    found = await scene.store.health.check()
    assert "jobs that are not where their record says" in [
        one.check for one in found if one.severity is Severity.PROBLEM
    ]
    await _rewrite(scene, job, state="scheduled")


async def test_a_move_that_only_a_claim_makes_is_an_error(scene: Scene) -> None:
    job = await scene.enqueue()
    move = Transition(job, 0, JobState.RUNNING, JobState.READY, why=What.CLAIMED)
    with pytest.raises(StoreError, match="no move takes a job to running"):
        await scene.store.jobs.finish([move])
    assert await scene.state(job) is JobState.READY


@pytest.mark.parametrize("values", [width(Record) - 1, width(Record) + 2])
async def test_a_record_of_another_width_is_no_record(scene: Scene, values: int) -> None:
    job = await scene.enqueue(delay=60.0)
    blob = msgspec.msgpack.decode(await _blob(scene, job))
    await _put(scene, job, msgspec.msgpack.encode([*blob, False, 0][:values]))
    assert await scene.store.jobs.get([job]) == []
    assert await scene.store.jobs.live([job]) == []
    await _put(scene, job, msgspec.msgpack.encode(blob))


async def _rewrite(scene: Scene, job: JobId, **values: Any) -> None:
    found = to_record(await _blob(scene, job))
    await _put(scene, job, msgspec.msgpack.encode(msgspec.structs.replace(found, **values)))


async def _blob(scene: Scene, job: JobId) -> bytes:
    assert isinstance(scene.store, ValkeyStore)
    connections = scene.store._connections
    found: bytes = await connections.command(
        "GET", connections.key(connections.partition_of(job), f"s:{job}")
    )
    return found


async def _put(scene: Scene, job: JobId, blob: bytes) -> None:
    assert isinstance(scene.store, ValkeyStore)
    connections = scene.store._connections
    await connections.command(
        "SET", connections.key(connections.partition_of(job), f"s:{job}"), blob
    )
