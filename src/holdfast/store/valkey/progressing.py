"""Progress of running attempts: many reports in one script."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.contract.records import ProgressReport
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.layout import ReportRow


class ValkeyProgressing(ValkeyVerbs):
    """See `holdfast.store.contract.progressing.Progressing`."""

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        if not reports:
            return []
        places = self._connections.places_by_partition([report.id for report in reports])
        calls = [
            ("jobs/report_progress", partition, {"reports": [_row(reports[n]) for n in mine]})
            for partition, mine in places.items()
        ]
        kept = [False] * len(reports)
        answers = await self._connections.call_each(calls)
        for mine, answer in zip(places.values(), answers, strict=True):
            for n, is_ours in zip(mine, answer, strict=True):
                kept[n] = bool(is_ours)
        return kept


def _row(report: ProgressReport) -> ReportRow:
    progress = report.progress
    return ReportRow(
        id=report.id,
        fence=report.fence,
        fraction=progress.fraction,
        message=progress.message,
        checkpoint=progress.checkpoint_json,
    )
