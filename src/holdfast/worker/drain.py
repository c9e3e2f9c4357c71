"""When a worker has nothing left to do now."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import combinations

from holdfast.errors import StoreRefuses, StoreUnavailable
from holdfast.job.passing import total_name
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store
from holdfast.worker.pipeline import Pipeline

PROMOTION_BATCH = 1_000
CHECK_SECONDS = 0.1
"""Seconds between two checks while only other workers still run jobs of these queues."""
PUTS_BACK = frozenset(
    {
        What.RETRIED,
        What.TIMED_OUT,
        What.LOST,
        What.SNOOZED,
        What.THROTTLED,
        What.SUSPENDED,
        What.PUT_OFF,
        What.RESCHEDULED,
        What.MOVED,
    }
)
"""What may turn a ready or running job into one that waits for a time, perhaps one that is over."""


async def drained(pipeline: Pipeline) -> int:
    """Wait until the worker's queues hold nothing ready, running or due for its tasks; returns
    how many jobs the worker ended meanwhile.

    Due jobs are made ready here too, so a worker without services drains as well. Jobs that this
    worker put off for a moment are waited for. Jobs of a paused or cooling queue cannot run now
    and do not count, nor do those that a limit or the total of their queue holds up which no end of
    a job will open, nor those that need labels which this worker does not have.

    Promoting and counting are two statements. A job that another worker runs at the first may be
    due again at the second, if it failed without a wait, and neither sees it. Both are believed
    only if the books say that no job was put back meanwhile. For the same reason a job that this
    worker put off must have been due before the promotion.

    A job whose arguments do not fit is left for another worker, and is due again soon. If only jobs
    came that this worker had left before, it has nothing to do.
    """
    store, outage = pipeline.setup.store, pipeline.setup.outage
    tasks, options = tuple(pipeline.setup.registry), pipeline.setup.options
    labels, only = tuple(options.labels), tuple(options.only)
    before = pipeline.finisher.counters.ended
    try:
        while not pipeline.runner.leaving:
            put_away, repeated = _put_away(pipeline), pipeline.misfits.repeated
            await _quiet(pipeline)
            again = pipeline.misfits.repeated - repeated
            if again and again == _put_away(pipeline) - put_away:
                break
            pipeline.admission.all_is_written()
            try:
                put_back = await _put_back(pipeline, tasks)
                waits = pipeline.admission.has_put_off
                promoted = (await store.jobs.promote_due(PROMOTION_BATCH)).count
                await pipeline.look_for_queues()
                work_left = (
                    waits
                    or promoted
                    or await _work_left(store, pipeline.permits.slots, tasks, labels, only)
                )
                if not work_left and await _put_back(pipeline, tasks) == put_back:
                    break
            except (StoreUnavailable, StoreRefuses) as error:
                outage.failed("promote_due", error)
                await outage.pause()
                continue
            outage.over("promote_due")
            pipeline.fetcher.wake()
            if not promoted:
                await asyncio.sleep(CHECK_SECONDS)
    finally:
        outage.over("promote_due")
    return pipeline.finisher.counters.ended - before


async def _quiet(pipeline: Pipeline) -> None:
    """Wait until the pipeline has claimed all it can get, run it, and written its ends."""
    while not pipeline.runner.leaving:
        await pipeline.runner.quiet.wait()
        await pipeline.finisher.settled()
        if (
            pipeline.fetcher.idle
            and not pipeline.runner.running
            and not pipeline.finisher.unwritten
        ):
            return
        await asyncio.sleep(0.002)


def _put_away(pipeline: Pipeline) -> int:
    """How many attempts of this worker have ended, but for those that only went back in line."""
    counters = pipeline.finisher.counters
    return counters.ended + counters.moved - counters.handed_back


async def _put_back(pipeline: Pipeline, tasks: tuple[str, ...]) -> int:
    """How many jobs of the worker's tasks and queues were ever put back to wait."""
    return sum(
        total.jobs
        for total in await pipeline.setup.store.telemetry.totals()
        if total.what in PUTS_BACK and total.queue in pipeline.permits.slots and total.task in tasks
    )


async def _work_left(
    store: Store,
    served: Collection[str],
    tasks: tuple[str, ...],
    labels: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
) -> bool:
    """Ready and running jobs are counted by one statement: a job that is claimed between two
    statements would be seen by neither."""
    paused = await store.queues.paused()
    closed = set(served) if paused.everything else await _closed(store, served)
    names, runnable = set(served) - closed, tuple(one for one in tasks if one not in paused.tasks)
    left = await _count(store, names, runnable, JobState.READY, JobState.RUNNING)
    if only:
        running = await _count(store, served, tasks, JobState.RUNNING)
        return running > 0 or await _needing(store, names, runnable, labels, only) > 0
    if left and left > await store.limits.held_up(names, runnable, labels):
        return True
    is_partial = bool(closed or paused.tasks)
    return is_partial and await _count(store, served, tasks, JobState.RUNNING) > 0


async def _needing(
    store: Store,
    queues: Collection[str],
    tasks: tuple[str, ...],
    labels: tuple[str, ...],
    only: tuple[str, ...],
) -> int:
    """How many jobs that may begin need all labels of `only`, and none but `labels`. A worker
    without some of its labels leaves the jobs that need one of those. The store counts these for
    each choice of labels, and by inclusion and exclusion that gives the jobs that need all."""
    needing = 0
    for size in range(len(only) + 1):
        for without in combinations(only, size):
            has = [label for label in labels if label not in without]
            needing -= (-1) ** size * await store.limits.held_up(queues, tasks, has)
    return needing


async def _closed(store: Store, served: Collection[str]) -> set[str]:
    """The queues from which nothing is given until an operator or time opens them: paused and
    cooling ones, and those whose total is shut while none of their jobs runs."""
    queues = await store.queues.find(tuple(served))
    totals = {total_name(one.name) for one in queues if one.settings.max_running is not None}
    buckets = await store.limits.get(totals) if totals else []
    shut = {one.key for one in buckets if one.room == 0 and one.in_use == 0}
    return shut | {one.name for one in queues if one.paused or one.cooling_for}


async def _count(
    store: Store, queues: Collection[str], tasks: tuple[str, ...], *states: JobState
) -> int:
    if not queues or not tasks:
        return 0
    these = JobFilter(states=frozenset(states), queues=tuple(queues), tasks=tasks)
    return sum((await store.jobs.count(these)).values())
