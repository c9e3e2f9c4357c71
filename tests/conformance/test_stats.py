"""Figures of a span, read from the series: the same on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.client.client import Client
from holdfast.errors import BadOption
from holdfast.insights.stats import MOST_POINTS, Stats, read_stats, step_for
from holdfast.job.what import What
from holdfast.store.contract.measures import Grain
from tests.conformance.builders import FAILED, RAISED, TASK, Scene
from tests.conformance.test_measures import all_rolled, measure

HOUR = 3600.0


async def busy(scene: Scene) -> None:
    await scene.enqueue_many(5, queue="mail")
    jobs = await scene.claim(4, "mail")
    for job, end in zip(jobs, (None, None, FAILED, RAISED), strict=True):
        await (scene.finish(job) if end is None else scene.finish(job, end))
    await scene.enqueue("other")
    await scene.store.telemetry.record(
        [
            measure(scene, 0.1, 0.2, 3.0, queue="mail", source="one"),
            measure(scene, 0.1, queue="mail", source="two"),
        ]
    )


async def test_a_span_has_exact_counts_and_percentiles(scene: Scene) -> None:
    await busy(scene)
    scene.clock.advance(30)
    stats = await read_stats(scene.store, HOUR)
    every = stats.every
    assert (every.enqueued, every.ended, every.failed, every.tried_again) == (6, 3, 1, 1)
    assert every.counts[What.CLAIMED] == 4
    assert every.lag == pytest.approx(30, abs=0.01)
    assert every.run.p50 == pytest.approx(0.1, rel=0.022)
    assert every.run.p99 == pytest.approx(3.0, rel=0.022)
    assert every.rate == pytest.approx(3 / (stats.until - stats.since).total_seconds())
    assert [(one.queue, one.task, one.ended) for one in stats.tasks] == [
        ("mail", TASK, 3),
        ("default", "other", 0),
    ]


async def test_a_queue_and_a_task_narrow_it(scene: Scene) -> None:
    await busy(scene)

    async def enqueued(queue: str | None = None, task: str | None = None) -> tuple[int, int]:
        stats = await read_stats(scene.store, HOUR, queue, task)
        assert sum(one.enqueued for one in stats.tasks) == stats.every.enqueued
        return stats.every.enqueued, len(stats.tasks)

    assert await enqueued() == (6, 2)
    assert await enqueued("mail") == (5, 1)
    assert await enqueued(task="other") == (1, 1)
    assert await enqueued("mail", "other") == (0, 0)


async def test_what_is_rolled_up_and_what_is_open_are_told_together(scene: Scene) -> None:
    async def told() -> Stats:
        return await read_stats(scene.store, 6 * HOUR)

    for _ in range(4):
        await busy(scene)
        scene.clock.advance(3000)
    before = await told()
    assert await all_rolled(scene) == 4
    assert await told() == before
    assert before.every.enqueued == 24
    assert len(before.timeline) == 4


@pytest.mark.parametrize(
    ("hours", "step"), [(0.25, 60), (1, 60), (6, 600), (24, 600), (7 * 24, 3600), (90 * 24, 86_400)]
)
def test_a_timeline_has_few_points_however_long_it_is(hours: float, step: int) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    chosen = step_for(now, now - timedelta(hours=hours), Grain.ALL, MOST_POINTS)
    assert chosen == step
    assert hours * HOUR / chosen <= MOST_POINTS


async def test_a_span_that_nothing_is_kept_of_is_refused(scene: Scene) -> None:
    for span in (0, -1, 401 * 86_400):
        with pytest.raises(BadOption, match="since"):
            await Client(scene.store).telemetry.stats(span)
    with pytest.raises(BadOption, match="queue"):
        await Client(scene.store).telemetry.stats(queue="no queue!")
