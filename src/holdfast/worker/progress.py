"""Progress of running attempts, batched on its way to the store."""

from __future__ import annotations

import asyncio

from holdfast.background.outage import Outage
from holdfast.enqueue.batcher import Batcher
from holdfast.errors import RowRefused
from holdfast.job.record import Progress
from holdfast.store.contract.records import ProgressReport
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt, Stop

PROGRESS = "report_progress"


class ProgressReporter:
    """Sends progress from coroutines, threads and children through one batcher."""

    def __init__(self, store: Store, outage: Outage) -> None:
        self._jobs = store.jobs
        self._outage = outage
        self._loop = asyncio.get_running_loop()
        self._batcher: Batcher[ProgressReport, bool] = Batcher(store.jobs.report_progress)

    async def report(self, attempt: Attempt, progress: Progress) -> bool:
        """False when the attempt is no longer ours. An outage is waited out: a handler must
        not fail because it wanted to say how far it is. A report that the store cannot take is
        the handler's own; those who shared a batch with it are sent alone."""
        report = ProgressReport(attempt.job.id, attempt.job.fence, progress)
        try:
            while attempt.stop is not Stop.LOST:
                try:
                    return await self._sent(report)
                except RowRefused:
                    raise
                except Exception as error:  # noqa: BLE001 - an outage, whatever the store says
                    self._outage.failed(PROGRESS, error)
                    await self._outage.pause()
            return False
        finally:
            self._outage.over(PROGRESS)  # also if the handler was stopped meanwhile

    async def _sent(self, report: ProgressReport) -> bool:
        try:
            kept = await self._batcher.submit(report)
        except RowRefused:
            [kept] = await self._jobs.report_progress([report])
        self._outage.answered(PROGRESS)
        return kept

    def report_sync(self, attempt: Attempt, progress: Progress) -> bool:
        return asyncio.run_coroutine_threadsafe(self.report(attempt, progress), self._loop).result()

    async def aclose(self) -> None:
        await self._batcher.aclose()
