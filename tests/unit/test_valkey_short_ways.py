"""The scripts for the common case leave exactly what the careful ones would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from holdfast.clock import ManualClock
from holdfast.job.ends import Returned
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.state import JobState
from holdfast.store.contract.records import JobFilter
from holdfast.store.valkey.claiming import INLINE
from holdfast.store.valkey.rows import to_record
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.conformance.builders import RETURNED, Scene
from tests.support.backends import opened

POLICIES = [Policy(), Policy(timeout=9), Policy(timeout=0.5, keep_result=False)]


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey()) as server:
        yield server


@pytest.fixture
async def scene(server: ThrowawayValkey, clock: ManualClock) -> AsyncIterator[Scene]:
    url = server.new_namespace()
    async with opened(url, clock) as store:
        yield await Scene.on(store, clock)
    server.clear(url)


async def _record(scene: Scene, job_id: JobId) -> dict[str, object]:
    """But for the arrival number, which no two jobs share."""
    assert isinstance(scene.store, ValkeyStore)
    connections = scene.store._connections
    found = to_record(await connections.command("GET", connections.key(0, f"s:{job_id}")))
    return msgspec.structs.asdict(found) | {"seq": ""}


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_job_that_is_not_looked_at_gets_the_record_of_one_that_is(
    scene: Scene, policy: Policy
) -> None:
    options: dict[str, Any] = {"policy": policy, "priority": -3, "queue": "größer", "tags": ("a",)}
    plain = await scene.enqueue(**options)
    looked_at = await scene.enqueue(run_at=scene.after(-60), **options)
    assert await _record(scene, plain) == await _record(scene, looked_at)


@pytest.mark.parametrize("policy", POLICIES)
async def test_an_end_that_is_a_return_leaves_the_record_that_any_end_would(
    scene: Scene, policy: Policy
) -> None:
    for _ in range(2):
        await scene.enqueue(policy=policy, deadline_in=600.0)
    one, other = await scene.claim(2)  # in one claim, which gives both the same fence
    await scene.finish(one)
    end = decide(other, RETURNED)
    # A job named twice sends the batch to the script that knows every move.
    assert [verdict.accepted for verdict in await scene.store.jobs.finish([end, end])] == [
        True,
        False,
    ]
    assert await _record(scene, one.id) == await _record(scene, other.id)
    succeeded = JobFilter(states=frozenset({JobState.SUCCEEDED}))
    assert await scene.store.jobs.count(succeeded) == {JobState.SUCCEEDED: 2}
    assert len((await scene.store.jobs.page(succeeded, 10)).jobs) == 2


async def test_a_job_that_is_deleted_between_its_claim_and_the_reading_of_its_body_is_left_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was silent for so long that another ended it, and retention removed it."""
    assert isinstance(scene.store, ValkeyStore)
    connections = scene.store._connections
    first, *others = await scene.enqueue_many(2 * INLINE)
    ask = connections.command

    async def too_late(*words: Any) -> Any:
        await ask("UNLINK", connections.key(0, f"b:{first}"), connections.key(0, f"s:{first}"))
        return await ask(*words)

    monkeypatch.setattr(connections, "command", too_late)
    assert [job.id for job in await scene.claim(2 * INLINE)] == others


async def test_results_that_are_alike_come_back_as_they_were(scene: Scene) -> None:
    """Each is written with a byte of its own at the end."""
    claimed = [await scene.running() for _ in range(200)]
    results = [f'"{"x" * 100}{n}"' for n in range(len(claimed))]
    await scene.store.jobs.finish(
        [decide(job, Returned(result)) for job, result in zip(claimed, results, strict=True)]
    )
    jobs = await scene.store.jobs.get([job.id for job in claimed])
    assert [job.result for job in jobs] == results
    told = await scene.store.jobs.outcomes([job.id for job in claimed])
    assert [outcome.result for outcome in told] == results
