"""The base of reconcilers that end attempts or jobs whose time is over.

They differ in three things: where they find the jobs, how a job ends, and which verb of the store
applies the end. `outcome.decide` decides, as it does for a worker. A batch that the store cannot
apply is halved until the job that causes the error is alone. The others are mended in the same
sweep, and the failure is counted against that job.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.errors import StoreRefuses, StoreUnavailable
from holdfast.job.ends import End
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import decode_policy
from holdfast.job.record import Live
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict

BATCHES_PER_PAGE = 10
"""Pages are in order of id, and to find the lowest ids a store reads every late job. So a page is
larger than a batch of writes: a hundred thousand late jobs are read twenty times, not two hundred
times."""


class JobMender(Reconciler):
    """Ends jobs, each in the way that `end_of` gives. A job that fails for good is told here: the
    worker that ran it may be dead."""

    _tried: Mapping[JobId, Live] = {}

    async def apply(self, moves: Sequence[Transition]) -> list[Verdict]:
        return await self.store.jobs.finish(moves)

    async def mend(self, jobs: Sequence[Live], end_of: Callable[[Live], End]) -> Swept:
        tried = [job for job in jobs if not self.failures.skips(job.id)]
        blamed: dict[JobId, Exception] = {}
        moves = _decide(tried, end_of, blamed)
        self._tried = {job.id: job for job in tried}
        mended = await self._mend_page(moves, blamed)
        self._tried = {}
        self.report_blamed(blamed)
        return mended + Swept(found=len(jobs), failed=len(blamed), skipped=len(jobs) - len(tried))

    async def _mend_page(
        self, moves: Sequence[Transition], blamed: dict[JobId, Exception]
    ) -> Swept:
        """In batches, so that no single write takes long. Between batches a stop is obeyed."""
        total, batch = Swept(), self.options.batch
        for start in range(0, len(moves), batch):
            if start and self._stop.is_set():
                break
            total += await self._mend(moves[start : start + batch], blamed)
        return total

    async def _mend(self, moves: Sequence[Transition], blamed: dict[JobId, Exception]) -> Swept:
        if not moves:
            return Swept()
        try:
            verdicts = await self.apply(moves)
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception as error:  # noqa: BLE001 - the job that causes it is found and reported
            if len(moves) == 1:
                blamed[moves[0].id] = error
                return Swept()
            half = len(moves) // 2
            first = await self._mend(moves[:half], blamed)
            return first + await self._mend(moves[half:], blamed)
        for move, verdict in zip(moves, verdicts, strict=True):
            if verdict.accepted and move.to is JobState.FAILED:
                self._tell_failed(self._tried[move.id], move)
        return self._count(verdicts)

    def _tell_failed(self, job: Live, move: Transition) -> None:
        error = move.error
        facts = {
            "job_id": job.id,
            "task": job.task,
            "queue": job.queue,
            "attempt": job.attempt,
            "max_attempts": decode_policy(job.policy).retry.max_attempts,
            "fence": job.fence,
            "worker": job.worker_id,
            "error": None if error is None else error.kind,
            "message": move.reason if error is None else error.message,
            "traceback": None,
            "exception": None,
        }
        self.events.error("job.attempt_failed", **facts, next=move.to, retry_in=None)
        self.events.error("job.failed", **facts, seconds=None)

    def _count(self, verdicts: Sequence[Verdict]) -> Swept:
        for verdict in verdicts:
            self.failures.succeeded(verdict.id)
        mended = sum(verdict.accepted for verdict in verdicts)
        return Swept(mended=mended, refused=len(verdicts) - mended)


class JobSweep(JobMender):
    """Pages through jobs in order of id and ends each of them."""

    @abstractmethod
    async def find(self, limit: int, after: str | None) -> list[Live]:
        """The next jobs to mend, in order of id."""

    @abstractmethod
    def end_of(self, job: Live) -> End:
        """What has happened to the job."""

    async def mend_page(self, page: Sequence[Live]) -> Swept:
        return await self.mend(page, self.end_of)

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        limit = BATCHES_PER_PAGE * self.options.batch
        page = await self.find(limit, cursor)
        tally = await self.mend_page(page)
        return tally, page[-1].id if len(page) >= limit else None


def _decide(
    jobs: Sequence[Live], end_of: Callable[[Live], End], blamed: dict[JobId, Exception]
) -> list[Transition]:
    moves: list[Transition] = []
    for job in jobs:
        try:
            moves.append(decide(job, end_of(job), cancel_requested=job.cancel_requested))
        except Exception as error:  # noqa: BLE001 - e.g. a policy no longer readable; reported
            blamed[job.id] = error
    return moves
