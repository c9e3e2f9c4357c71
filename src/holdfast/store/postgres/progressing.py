"""Reports of progress as columns: one row a job, however many reports came for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.job import JobId, Progress
from holdfast.store.contract import ProgressReport


def progress_columns(reports: Sequence[ProgressReport]) -> tuple[list[Any], ...]:
    """Parameters 2 to 6 of report_progress.sql. Of several reports for one attempt the
    later fields win; of several attempts of one job only the newest can be current."""
    merged: dict[JobId, ProgressReport] = {}
    for report in reports:
        known = merged.get(report.id)
        if known is None or report.fence > known.fence:
            merged[report.id] = report
        elif report.fence == known.fence:
            merged[report.id] = ProgressReport(
                report.id, report.fence, _newer(known.progress, report.progress)
            )
    kept = list(merged.values())
    return (
        [report.id for report in kept],
        [report.fence for report in kept],
        [report.progress.fraction for report in kept],
        [report.progress.message for report in kept],
        [report.progress.checkpoint for report in kept],
    )


def _newer(old: Progress, new: Progress) -> Progress:
    return Progress(
        old.fraction if new.fraction is None else new.fraction,
        old.message if new.message is None else new.message,
        old.checkpoint if new.checkpoint is None else new.checkpoint,
    )
