"""Steps: their results and errors are encrypted, bound to the job and to the name of the step."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ids import JobId
from holdfast.job.signal import Recalled
from holdfast.job.step import Step, StepRecord
from holdfast.store.contract.steps import Steps
from holdfast.store.sealed.records import Records


class SealedSteps:
    def __init__(self, steps: Steps, records: Records) -> None:
        self._steps = steps
        self._records = records

    async def record(self, records: Sequence[StepRecord]) -> list[bool]:
        return await self._steps.record([self._records.step_record(one) for one in records])

    async def load(self, ids: Sequence[JobId]) -> dict[JobId, list[Step]]:
        """A text that does not open stays encrypted, and says so."""
        return {
            job: [self._records.step(job, one) for one in some]
            for job, some in (await self._steps.load(ids)).items()
        }

    async def recall(self, ids: Sequence[JobId]) -> dict[JobId, Recalled]:
        """As `load`, and as `SealedSignals.of`."""
        found = await self._steps.recall(ids)
        return {job: self._records.recalled(job, some) for job, some in found.items()}
