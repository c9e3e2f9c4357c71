"""Progress that running attempts report."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.contract.records import ProgressReport, SpendReport
from holdfast.store.sqlite.receipts import totals
from holdfast.store.sqlite.rows import to_json, to_json_object
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Verbs

SMALL_BATCH = 64
"""So many reports of spending take less than a millisecond."""


class SqliteProgressing(Verbs):
    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        if not reports:
            return []
        return await self._writer.write(lambda tx: report_progress(tx, reports))

    async def report_spend(self, reports: Sequence[SpendReport]) -> list[bool]:
        if not reports:
            return []
        return await self._writer.write(
            lambda tx: report_spend(tx, reports), small=len(reports) <= SMALL_BATCH
        )


def report_spend(tx: Transaction, reports: Sequence[SpendReport]) -> list[bool]:
    sql = steps("jobs/report_spend")
    ids = to_json({report.id for report in reports})
    leases = {job_id: (fence, spent) for job_id, fence, spent in tx.rows(sql["leases"], (ids,))}
    kept: list[bool] = []
    for report in reports:
        fence, spent = leases.get(report.id, (None, None))
        kept.append(fence == report.fence)
        if fence == report.fence:
            text = to_json_object(totals(spent, report.spent.items()))
            leases[report.id] = (fence, text)
            tx.run(sql["keep"], (text, report.id))
    return kept


def report_progress(tx: Transaction, reports: Sequence[ProgressReport]) -> list[bool]:
    sql = steps("jobs/report_progress")
    fences: dict[str, int] = dict(
        tx.rows(sql["fences"], (to_json({report.id for report in reports}),))
    )
    kept = [fences.get(report.id) == report.fence for report in reports]
    tx.each(
        sql["keep"],
        [
            (
                report.id,
                report.progress.fraction,
                report.progress.message,
                report.progress.checkpoint_json,
                tx.now,
            )
            for report, ours in zip(reports, kept, strict=True)
            if ours
        ],
    )
    return kept
