"""When a worker may say that nothing is left."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.clock import ManualClock
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.worker import drain
from tests.conformance.builders import QUEUE, TASK, Scene
from tests.support.backends import opened


async def test_a_job_that_is_claimed_between_two_looks_is_work_left(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue()
        count = store.jobs.count

        async def count_then_claim(these: JobFilter) -> Mapping[JobState, int]:
            found = await count(these)
            await scene.claim(1)
            return found

        monkeypatch.setattr(store.jobs, "count", count_then_claim)
        assert await drain._work_left(store, [QUEUE], (TASK,))
