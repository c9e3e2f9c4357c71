"""A call becomes a job, a worker runs it, and the caller gets what the function returned."""

from __future__ import annotations

from holdfast import App, JobState

app = App("sqlite://")


@app.task()
async def add(a: int, b: int) -> int:
    return a + b


async def test_a_job_gives_back_what_its_function_returned() -> None:
    async with app:
        job = await add.enqueue(2, b=3)
        async with app.worker():
            assert await job.result(timeout=10) == 5


async def test_a_job_is_ready_until_a_worker_has_run_it() -> None:
    async with app:
        job = await add.enqueue(2, 3)
        assert (await job.get()).state is JobState.READY
        async with app.worker() as worker:
            await worker.drain()
        assert (await job.get()).state is JobState.SUCCEEDED


def test_a_task_that_is_called_plainly_just_runs() -> None:
    assert add.name == f"{__name__}.add"  # the module and the function
    add(2, 3).close()  # a coroutine, as if nothing had been decorated
