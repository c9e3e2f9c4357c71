"""What a running attempt says of itself, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.record import Progress
from holdfast.store.contract.records import ProgressReport, SpendReport
from holdfast.store.postgres.job_verbs import JobVerbs


class PostgresProgressing(JobVerbs):
    """See `holdfast.store.contract.progressing.Progressing` for what the verb promises."""

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        if not reports:
            return []
        merged = _merged(reports)
        kept = await self._connections.timed(
            "jobs/report_progress",
            [report.id for report in merged],
            [report.fence for report in merged],
            [report.progress.fraction for report in merged],
            [report.progress.message for report in merged],
            [report.progress.checkpoint_json for report in merged],
        )
        held = {(str(row["job_id"]), row["fence"]) for row in kept}
        return [(report.id, report.fence) in held for report in reports]

    async def report_spend(self, reports: Sequence[SpendReport]) -> list[bool]:
        if not reports:
            return []
        merged: dict[tuple[JobId, int], dict[str, int]] = {}
        for report in reports:
            merged.setdefault((report.id, report.fence), {}).update(report.spent)
        kept = await self._connections.fetch(
            "jobs/report_spend",
            [job for job, _ in merged],
            [fence for _, fence in merged],
            [msgspec.json.encode(spent).decode() for spent in merged.values()],
        )
        held = {(JobId(row[0]), row[1]) for row in kept}
        return [(report.id, report.fence) in held for report in reports]


def _merged(reports: Sequence[ProgressReport]) -> list[ProgressReport]:
    """One report for each attempt: a statement cannot write one row twice. Of several reports of
    an attempt the later fields win."""
    merged: dict[tuple[JobId, int], ProgressReport] = {}
    for report in reports:
        attempt = report.id, report.fence
        known = merged.get(attempt)
        progress = _newer(known.progress, report.progress) if known else report.progress
        merged[attempt] = ProgressReport(*attempt, progress)
    return list(merged.values())


def _newer(old: Progress, new: Progress) -> Progress:
    return Progress(
        old.fraction if new.fraction is None else new.fraction,
        old.message if new.message is None else new.message,
        old.checkpoint_json if new.checkpoint_json is None else new.checkpoint_json,
    )
