"""What becomes of a plan whose predecessor has not ended: the whole table."""

from __future__ import annotations

import pytest

from holdfast.job.ids import JobId
from holdfast.schedule.model import Decision, Overlap
from holdfast.schedule.overlap import decide_overlap

JOB = JobId("01900000-0000-7000-8000-000000000001")


@pytest.mark.parametrize("overlap", Overlap)
def test_a_plan_without_a_predecessor_fires(overlap: Overlap) -> None:
    decided = decide_overlap(overlap, [])
    assert (decided.decision, decided.cancel) == (Decision.FIRED, ())


@pytest.mark.parametrize(
    ("overlap", "waiting", "decision", "cancel"),
    [
        (Overlap.ALLOW, False, Decision.FIRED, ()),
        (Overlap.SKIP, False, Decision.SKIPPED, ()),
        (Overlap.QUEUE_ONE, False, Decision.WAITING, ()),
        (Overlap.QUEUE_ONE, True, Decision.SKIPPED, ()),
        (Overlap.REPLACE, False, Decision.FIRED, (JOB,)),
    ],
)
def test_a_plan_behind_another_goes_as_its_overlap_says(
    overlap: Overlap, waiting: bool, decision: Decision, cancel: tuple[JobId, ...]
) -> None:
    decided = decide_overlap(overlap, [JOB], waiting)
    assert (decided.decision, decided.cancel) == (decision, cancel)
    assert decision is Decision.FIRED or "overlap" in decided.reason
