"""Notes what a store answers, so that a test can count what was accepted and what refused."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from holdfast.job.record import Claimed
from holdfast.job.transition import Transition
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.records import ProgressReport, Verdict
from holdfast.store.contract.workers import WorkerInfo
from tests.support.diary import Diary

Move = Callable[..., Awaitable[list[Verdict]]]


def record(jobs: Jobs, diary: Diary) -> None:
    """Put the diary between this store's jobs and whoever uses them from here on."""
    _replace(jobs, "claim", _claims(jobs.claim, diary))
    _replace(jobs, "finish", _verdicts("finish", jobs.finish, diary))
    _replace(jobs, "reclaim", _verdicts("reclaim", jobs.reclaim, diary))
    _replace(jobs, "report_progress", _progress(jobs.report_progress, diary))


def _replace(jobs: Jobs, verb: str, recorded: Callable[..., object]) -> None:
    setattr(jobs, verb, recorded)


def _claims(
    claim: Callable[..., Awaitable[list[Claimed]]], diary: Diary
) -> Callable[..., Awaitable[list[Claimed]]]:
    async def recorded(*asked_for: object) -> list[Claimed]:
        asked = time.monotonic()
        claimed = await claim(*asked_for)
        if claimed:
            facts = [{"job": job.id, "fence": job.fence, "asked": asked} for job in claimed]
            diary.note_all("claimed", facts)
        return claimed

    return recorded


def _verdicts(verb: str, move: Move, diary: Diary) -> Move:
    async def recorded(transitions: Sequence[Transition], *by: WorkerInfo | None) -> list[Verdict]:
        verdicts = await move(transitions, *by)
        if transitions:
            diary.note_all(
                verb,
                [
                    {"job": t.id, "fence": t.fence, "to": t.to, "accepted": verdict.accepted}
                    for t, verdict in zip(transitions, verdicts, strict=True)
                ],
            )
        return verdicts

    return recorded


def _progress(
    report: Callable[[Sequence[ProgressReport]], Awaitable[list[bool]]], diary: Diary
) -> Callable[[Sequence[ProgressReport]], Awaitable[list[bool]]]:
    async def recorded(reports: Sequence[ProgressReport]) -> list[bool]:
        kept = await report(reports)
        for each, accepted in zip(reports, kept, strict=True):
            diary.note("progress", job=each.id, fence=each.fence, accepted=accepted)
        return kept

    return recorded
