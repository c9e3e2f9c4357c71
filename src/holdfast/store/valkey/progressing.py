"""What running attempts report: many reports in one script."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.contract.records import ProgressReport, SpendReport
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.requests import ReportRow


class ValkeyProgressing(ValkeyVerbs):
    """See `holdfast.store.contract.progressing.Progressing`."""

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        rows = [_row(report) for report in reports]
        return await self._report("jobs/report_progress", [one.id for one in reports], rows)

    async def report_spend(self, reports: Sequence[SpendReport]) -> list[bool]:
        rows = [(one.id, one.fence, _totals(one)) for one in reports]
        return await self._report("jobs/report_spend", [one.id for one in reports], rows)

    async def _report(self, verb: str, ids: Sequence[str], reports: Sequence[object]) -> list[bool]:
        if not reports:
            return []
        places = self._connections.places_by_partition(ids)
        calls = [
            (verb, partition, {"reports": [reports[n] for n in mine]})
            for partition, mine in places.items()
        ]
        kept = [False] * len(reports)
        answers = await self._connections.call_each(calls)
        for mine, answer in zip(places.values(), answers, strict=True):
            for n, is_ours in zip(mine, answer, strict=True):
                kept[n] = bool(is_ours)
        if not all(kept):
            await self._connections.require_marked(places)
        return kept


def _totals(report: SpendReport) -> list[object]:
    return [word for one in report.spent.items() for word in one]


def _row(report: ProgressReport) -> ReportRow:
    progress = report.progress
    return ReportRow(
        id=report.id,
        fence=report.fence,
        fraction=progress.fraction,
        message=progress.message,
        checkpoint=progress.checkpoint_json,
    )
