"""What the Valkey store lacks, and how its sweeps go on where thousands are late."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    NotCapable,
)
from holdfast.store.contract.records import Capability
from tests.conformance.builders import (
    Scene,
    ids,
    insert_within,
    insert_within_sync,
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
    assert Capability.JOIN_TRANSACTION not in scene.store.capabilities
    with pytest.raises(NotCapable, match="caller's transaction"):
        await insert_within(scene.store.jobs, object(), [new_job()])
    with pytest.raises(NotCapable):
        insert_within_sync(scene.store.jobs, object(), [new_job()])
