"""A server that restarts without its last writes: it gives no fence twice, and an
end of a forgotten attempt does not end the attempt after it."""

from __future__ import annotations

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.job.ends import End
from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.store.contract.workers import Held
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import LONG, RAISED, RETURNED, Scene


def forget_since_the_snapshot(server: ThrowawayValkey) -> None:
    server.restart()


async def claim_again(scene: Scene, worker: WorkerId) -> Claimed:
    """Claim once the store has noticed that its connection is cut."""
    with pytest.raises(StoreUnavailable, match="closed the connection"):
        await scene.claim(1, worker=worker)
    return await scene.claim_one(worker=worker)


@pytest.mark.parametrize("end", [RETURNED, RAISED])
async def test_an_end_of_a_forgotten_attempt_does_not_end_anothers(
    server: ThrowawayValkey, scene: Scene, end: End
) -> None:
    other = await scene.hire(LONG)
    job = await scene.enqueue()
    server.say("SAVE")
    forgotten = await scene.claim_one()
    forget_since_the_snapshot(server)
    current = await claim_again(scene, other)
    assert (forgotten.id, current.id) == (job, job)
    assert not (await scene.finish(forgotten, end)).accepted
    assert await scene.state(job) is JobState.RUNNING
    assert (await scene.finish(current, end)).accepted


async def test_a_forgotten_attempt_of_ones_own_is_not_the_next_one(
    server: ThrowawayValkey, scene: Scene
) -> None:
    await scene.enqueue()
    server.say("SAVE")
    forgotten = await scene.claim_one()
    forget_since_the_snapshot(server)
    current = await claim_again(scene, scene.worker)
    assert current.fence > forgotten.fence
    held = [Held(forgotten.id, forgotten.fence)]
    assert (await scene.store.workers.heartbeat(scene.worker, LONG, held)).lost == (current.id,)
    assert not (await scene.finish(forgotten)).accepted


async def test_fences_grow_past_those_that_were_forgotten(
    server: ThrowawayValkey, scene: Scene
) -> None:
    """Another system that was shown a fence refuses every older fence. So no fence may be given
    twice."""
    await scene.enqueue()
    server.say("SAVE")
    highest = 0
    for _ in range(5):
        claimed = await scene.claim_one()
        await scene.finish(claimed, RAISED)
        scene.clock.advance(10)
        await scene.store.jobs.promote_due(1)
        highest = max(highest, claimed.fence)
    forget_since_the_snapshot(server)
    assert (await claim_again(scene, scene.worker)).fence > highest
