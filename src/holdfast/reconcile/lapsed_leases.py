"""Takes back the jobs of workers that died.

Nothing announces the death of a worker. Each poll of a living one tells when the lease of another
has lapsed, and wakes this reconciler, so a lost job is back within its lease plus one poll. The
interval is for jobs whose worker left no row behind, and for workers that poll less often.

`ruling` decides whether a lapsed worker is dead and what its jobs pay. In the transaction that
reclaims, the store checks again that the lapsed worker is still gone and that the worker which
judged it is still as it was: a worker that came back in time keeps its jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.background.counters import Swept
from holdfast.background.job_sweep import JobMender
from holdfast.job.ends import End, Reclaimed, WorkerLost
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Live
from holdfast.job.transition import Transition
from holdfast.reconcile.ruling import Ruling, ends_of, in_good_standing, rule
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import WorkerInfo

LOOK_AGAIN_SECONDS = 1.5
"""The pause after a sweep that found lost jobs and left some of them."""
OUTAGE = "the store was out of reach, and its worker did not come back"


class LapsedLeasesReconciler(JobMender):
    """Reads all lost jobs before it mends any: what a job pays depends on the other jobs that its
    worker held."""

    name = "lapsed_leases"
    on_loss = True
    _judge: WorkerInfo | None = None
    _left_some = False

    @property
    def interval(self) -> float:
        return self.options.lapsed_leases

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        tally = Swept()
        lost = await self._lost()
        if lost:
            rulings = await self._rulings(lost)
            for worker, jobs in lost.items():
                tally += await self._take_back(worker, jobs, rulings[worker])
        self._left_some = tally.mended < tally.found
        return tally, None

    async def due_in(self) -> float | None:
        return LOOK_AGAIN_SECONDS if self._left_some else None

    async def apply(self, moves: Sequence[Transition]) -> list[Verdict]:
        return await self.store.jobs.reclaim(moves, self._judge)

    async def _lost(self) -> dict[WorkerId | None, list[Live]]:
        lost: dict[WorkerId | None, list[Live]] = {}
        after: str | None = None
        while page := await self.store.jobs.lapsed_leases(self.options.batch, after):
            for job in page:
                lost.setdefault(job.worker_id, []).append(job)
            if len(page) < self.options.batch:
                break
            after = page[-1].id
        return lost

    async def _rulings(
        self, lost: dict[WorkerId | None, list[Live]]
    ) -> dict[WorkerId | None, Ruling]:
        """One ruling for each worker that lost jobs. Without a worker in this process there is none
        that could have noticed an outage of the store, so every lapsed worker counts as dead."""
        name = self.options.worker()
        if name is None:
            self._judge = None
            return dict.fromkeys(lost, Ruling.CHARGE)
        fleet = {worker.id: worker for worker in await self.store.workers.find()}
        judge = self._judge = fleet.get(name)
        if judge is None or not in_good_standing(judge):
            return dict.fromkeys(lost, Ruling.WAIT)
        everyone = tuple(fleet.values())
        return {
            worker: rule(judge, None if worker is None else fleet.get(worker), everyone)
            for worker in lost
        }

    async def _take_back(
        self, worker: WorkerId | None, jobs: Sequence[Live], ruling: Ruling
    ) -> Swept:
        """Jobs that pay are taken back last. If the sweep ends in between, the next sweep finds the
        jobs to blame among those left; spared jobs left alone would be blamed instead."""
        if ruling is Ruling.WAIT:
            return Swept(found=len(jobs), skipped=len(jobs))
        ends: dict[JobId, End] = (
            ends_of(jobs)
            if ruling is Ruling.CHARGE
            else {job.id: Reclaimed(OUTAGE) for job in jobs}
        )
        in_order = sorted(jobs, key=lambda job: isinstance(ends[job.id], WorkerLost))
        tally = Swept()
        for first in range(0, len(in_order), self.options.batch):
            some = in_order[first : first + self.options.batch]
            tally += await self.mend(some, lambda job: ends[job.id])
        self._report_worker(worker, ends, tally)
        return tally

    def _report_worker(self, worker: WorkerId | None, ends: dict[JobId, End], tally: Swept) -> None:
        if tally.mended:
            charged = sum(isinstance(end, WorkerLost) for end in ends.values())
            self.events.warning(
                "reconciler.jobs_reclaimed",
                worker=worker,
                charged=charged,
                spared=len(ends) - charged,
            )
