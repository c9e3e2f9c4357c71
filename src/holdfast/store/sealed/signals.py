"""Signals: their values are encrypted, bound to the job. Names and keys are not."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Sent, Signal, SignalLimits
from holdfast.store.contract.signals import Signals
from holdfast.store.sealed.records import Records


class SealedSignals:
    def __init__(self, signals: Signals, records: Records) -> None:
        self._signals = signals
        self._records = records
        self.waits = signals.waits
        self.wake = signals.wake

    async def send(
        self, signals: Sequence[NewSignal], limits: SignalLimits, by: str | None = None
    ) -> list[Sent]:
        return await self._signals.send(
            [self._records.new_signal(one) for one in signals], limits, by
        )

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[Signal]]:
        """A value that does not open stays encrypted, and says so."""
        return {
            job: [self._records.signal(job, one) for one in some]
            for job, some in (await self._signals.of(ids)).items()
        }
