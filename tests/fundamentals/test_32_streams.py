"""A stream: frames that somebody follows while the job runs."""

from __future__ import annotations

from holdfast import App, Context, Retry


async def test_a_follower_sees_frames_while_the_job_runs() -> None:
    app = App("sqlite://")

    @app.task(retry=Retry(max_attempts=2, base=0, jitter=0))
    async def answer(ctx: Context) -> str:
        async with ctx.stream("tokens") as out:
            for token in ("To", " be"):
                await out.write(token)
            if ctx.attempt == 1:
                await out.close()  # everything is in the store
                raise ConnectionError("the model hung up")
            await out.write(".")
        return out.text

    async with app, app.worker():
        job = await answer.enqueue()
        assert await job.result(timeout=10) == "To be."
        frames = [frame async for frame in job.stream("tokens")]
        assert [frame.data for frame in frames] == ["To", " be", "."]
        rest = [frame.data async for frame in job.stream("tokens", after=frames[0].cursor)]
        assert rest == [" be", "."]
