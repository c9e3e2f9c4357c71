"""Reports of progress as columns: one row an attempt, however many reports came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.record import Progress
from holdfast.store.contract.records import ProgressReport


def progress_columns(reports: Sequence[ProgressReport]) -> tuple[list[Any], ...]:
    """Parameters 2 to 6 of report_progress.sql. Of several reports for one attempt the
    later fields win."""
    merged: dict[tuple[JobId, int], ProgressReport] = {}
    for report in reports:
        attempt = report.id, report.fence
        known = merged.get(attempt)
        progress = _newer(known.progress, report.progress) if known else report.progress
        merged[attempt] = ProgressReport(*attempt, progress)
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
