"""What the Valkey store lacks, and how its sweeps go on where thousands are late."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    NotCapable,
)
from holdfast.store.contract.records import (
    Capability,
)
from tests.conformance.builders import (
    Scene,
    ids,
    new_job,
)


async def test_many_late_jobs_do_not_hide_later_ones_from_a_sweep(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.valkey.sweeping.LATE_BATCH", 7)
    jobs = sorted(await scene.enqueue_many(50, deadline_in=5.0))
    scene.clock.advance(6)
    found = await scene.store.jobs.past_deadline(10, jobs[34])
    assert ids(found) == jobs[35:45]


async def test_an_enqueue_inside_a_transaction_is_a_declared_lack(scene: Scene) -> None:
    assert Capability.TRANSACTIONAL_ENQUEUE not in scene.store.capabilities
    with pytest.raises(NotCapable, match="caller's transaction"):
        await scene.store.jobs.insert_within(object(), [new_job()])
    with pytest.raises(NotCapable):
        scene.store.jobs.insert_within_sync(object(), [new_job()])
