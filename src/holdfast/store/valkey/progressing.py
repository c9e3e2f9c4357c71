"""Progress of running attempts: many reports in one script."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.contract.records import ProgressReport
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.layout import ReportRow


async def report_progress(
    connections: Connections, reports: Sequence[ProgressReport]
) -> list[bool]:
    if not reports:
        return []
    places: dict[int, list[int]] = {}
    for n, report in enumerate(reports):
        places.setdefault(connections.partition_of(report.id), []).append(n)
    calls = [
        ("jobs/report_progress", partition, {"reports": [_row(reports[n]) for n in mine]})
        for partition, mine in places.items()
    ]
    kept = [False] * len(reports)
    for mine, answer in zip(places.values(), await connections.call_each(calls), strict=True):
        for n, ours in zip(mine, answer, strict=True):
            kept[n] = bool(ours)
    return kept


def _row(report: ProgressReport) -> ReportRow:
    told = report.progress
    return ReportRow(report.id, report.fence, told.fraction, told.message, told.checkpoint)
