"""An attempt says how far it is, and leaves a checkpoint from which the next one goes on."""

from __future__ import annotations

from holdfast import App, Context, Retry, Snooze
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(retry=Retry(max_attempts=2, base=1, jitter=0))
async def copy(ctx: Context, rows: int) -> int:
    """Fails halfway; the second attempt copies only what is left."""
    start: int = ctx.checkpoint or 0
    if start == 0:
        await ctx.progress(0.5, "halfway", checkpoint=rows // 2)
        raise ConnectionError("lost the other side")
    return rows - start


@app.task()
async def wait_for_file(ctx: Context) -> str:
    if ctx.checkpoint is None:
        await ctx.progress(checkpoint="asked once")
        raise Snooze(60)
    return str(ctx.checkpoint)


async def test_the_next_attempt_goes_on_from_the_checkpoint() -> None:
    async with Harness(app) as harness:
        job = await copy.enqueue(100)
        await harness.drain(raises=False)
        progress = (await job.get()).progress
        assert progress is not None
        assert (progress.fraction, progress.message) == (0.5, "halfway")
        await harness.advance(seconds=1)
        await harness.drain()
        assert await job.result() == 50


async def test_a_snoozed_job_comes_back_without_spending_an_attempt() -> None:
    async with Harness(app) as harness:
        job = await wait_for_file.enqueue()
        await harness.drain()
        assert (await job.get()).attempts == 0
        await harness.advance(minutes=1)
        await harness.drain()
        assert await job.result() == "asked once"
