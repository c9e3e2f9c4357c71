"""Progress that running attempts report."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.contract.records import ProgressReport
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteProgressing(Verbs):
    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        if not reports:
            return []
        return await self._writer.write(lambda tx: report_progress(tx, reports))


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
