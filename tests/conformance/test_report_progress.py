"""Jobs.report_progress: how far a running attempt is; a zombie's word does not count."""

from __future__ import annotations

from holdfast.job.ends import HandedBack
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.record import Progress
from holdfast.job.state import JobState
from holdfast.store.contract.records import ProgressReport
from tests.conformance.builders import RAISED, RETURNED, Scene


async def report(
    scene: Scene,
    job: JobId,
    fence: int,
    fraction: float | None = None,
    message: str | None = None,
    checkpoint: str | None = None,
) -> bool:
    progress = Progress(fraction, message, checkpoint)
    [kept] = await scene.store.jobs.report_progress([ProgressReport(job, fence, progress)])
    return kept


async def test_an_empty_batch_reports_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.report_progress([]) == []


async def test_progress_is_kept_with_its_time(scene: Scene) -> None:
    claimed = await scene.running()
    scene.clock.advance(5)
    assert await report(scene, claimed.id, claimed.fence, 0.5, "hälfte 🦊", '{"page":3}')
    expected = Progress(0.5, "hälfte 🦊", '{"page":3}', scene.clock.now)
    assert (await scene.job(claimed.id)).progress == expected


async def test_what_is_not_said_stays_as_it_was(scene: Scene) -> None:
    claimed = await scene.running()
    await report(scene, claimed.id, claimed.fence, 0.1, "begun", '{"page":1}')
    await report(scene, claimed.id, claimed.fence, fraction=0.2)
    await report(scene, claimed.id, claimed.fence, message="going")
    await report(scene, claimed.id, claimed.fence, checkpoint='{"page":2}')
    progress = (await scene.job(claimed.id)).progress
    assert progress is not None
    assert (progress.fraction, progress.message) == (0.2, "going")
    assert progress.checkpoint == {"page": 2}


async def test_an_old_fence_is_refused(scene: Scene) -> None:
    zombie = await scene.ended(HandedBack())
    successor = await scene.claim_one()
    assert await report(scene, successor.id, successor.fence, 0.9)
    assert not await report(scene, zombie.id, zombie.fence, 0.1)
    progress = (await scene.job(zombie.id)).progress
    assert progress is not None
    assert progress.fraction == 0.9


async def test_a_job_that_does_not_run_makes_no_progress(scene: Scene) -> None:
    claimed = await scene.ended(RETURNED)
    assert not await report(scene, claimed.id, claimed.fence, 0.5)
    assert not await report(scene, await scene.enqueue(), 0, 0.5)
    assert not await report(scene, new_job_id(), 1, 0.5)
    assert (await scene.job(claimed.id)).progress is None


async def test_a_batch_is_judged_item_by_item(scene: Scene) -> None:
    one, other = await scene.running(), await scene.running()
    half = Progress(0.5)
    answers = await scene.store.jobs.report_progress(
        [
            ProgressReport(one.id, one.fence, half),
            ProgressReport(one.id, one.fence + 1, half),
            ProgressReport(other.id, other.fence, half),
        ]
    )
    assert answers == [True, False, True]


async def test_of_two_reports_in_a_batch_the_later_wins(scene: Scene) -> None:
    claimed = await scene.running()
    reports = [
        ProgressReport(claimed.id, claimed.fence, Progress(0.1, "first", "1")),
        ProgressReport(claimed.id, claimed.fence, Progress(0.2, checkpoint_json="2")),
    ]
    assert await scene.store.jobs.report_progress(reports) == [True, True]
    progress = (await scene.job(claimed.id)).progress
    assert progress is not None
    assert (progress.fraction, progress.checkpoint) == (0.2, 2)


async def test_a_checkpoint_survives_a_retry_and_the_end(scene: Scene) -> None:
    claimed = await scene.running()
    await report(scene, claimed.id, claimed.fence, 0.5, checkpoint='{"n":"\\u0000"}')
    await scene.finish(claimed, RAISED)
    await scene.store.jobs.reschedule([claimed.id], 0)
    again = await scene.claim_one()
    assert again.checkpoint == '{"n":"\\u0000"}'
    await scene.finish(again, RETURNED)
    job = await scene.job(claimed.id)
    assert job.state is JobState.SUCCEEDED
    assert job.progress is not None
    assert job.progress.fraction == 0.5
