"""Steps on every store, in coroutines, threads and child processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.context import Context
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support import process_handlers as handlers
from tests.support.working import Shop


async def on_the_loop(ctx: Context, diary: str) -> list[int]:
    """As `steps_and_sleep`, with coroutines."""

    async def note(n: int) -> int:
        with Path(diary).open("a") as file:  # noqa: ASYNC230 - a line
            file.write(f"{n}\n")
        return n

    first = await ctx.step("first", note, 1)
    await ctx.sleep("nap", hours=1)
    second = await ctx.step.using(lazy=True)("second", note, 2)
    if ctx.attempt == 1:
        raise ValueError("again")
    return [first, second]


FUNCTIONS: dict[str, tuple[tuple[Callable[..., Any], ...], dict[str, Any]]] = {
    "loop": ((on_the_loop,), {}),
    "thread": ((handlers.steps_and_sleep,), {}),
    "process": ((), {"steps_and_sleep": handlers.steps_and_sleep}),
}


@pytest.mark.parametrize("mode", FUNCTIONS)
async def test_what_is_recorded_is_not_done_again(
    live_store: Store, mode: str, tmp_path: Path
) -> None:
    plain, processes = FUNCTIONS[mode]
    shop = Shop(live_store, *plain, **processes)
    diary = tmp_path / "diary"
    job_id = await shop.enqueue(next(iter(shop.registry)), str(diary))
    async with shop.worker(processes=1) as worker:
        await worker.drain()
        job = await shop.get(job_id)
        assert (job.state, job.reason, job.attempts) == ("suspended", "sleeps 'nap'", 0)
        await live_store.jobs.resume([job_id])
        await worker.drain()
        await live_store.jobs.promote_due(10)
        await worker.drain()
    job = await shop.get(job_id)
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, [1, 2], 2)
    assert diary.read_text().split() == ["1", "2"]
    found = (await live_store.steps.load([job_id]))[job_id]
    assert [step.name for step in found] == ["first", "nap", "second"]


async def test_steps_of_many_jobs_share_their_writes(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten steps of each of fifty jobs, in far fewer writes than steps."""
    batches: list[int] = []
    record = live_store.steps.record

    async def counted(records: Any) -> list[bool]:
        batches.append(len(records))
        return await record(records)

    monkeypatch.setattr(live_store.steps, "record", counted)

    async def ten_steps(ctx: Context) -> int:
        return sum([await ctx.step(f"step {n}", int, n) for n in range(10)])

    shop = Shop(live_store, ten_steps)
    ids = [await shop.enqueue(ten_steps) for _ in range(50)]
    async with shop.worker({"default": 50}) as worker:
        await worker.drain()
    assert {(await shop.get(job_id)).result for job_id in ids} == {45}
    assert sum(batches) == 500
    assert len(batches) < 150


async def test_a_job_without_steps_sends_nothing_about_steps(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does an attempt that is not the first, if no earlier one has recorded a step."""

    async def never(*_: Any) -> Any:
        raise AssertionError("the store was asked for steps")

    monkeypatch.setattr(live_store.steps, "record", never)
    monkeypatch.setattr(live_store.steps, "load", never)
    monkeypatch.setattr(live_store.steps, "recall", never)

    async def fails_once(ctx: Context) -> str:
        await asyncio.sleep(0)
        if ctx.attempt == 1:
            raise ValueError("again")
        return "done"

    shop = Shop(live_store, fails_once)
    job_id = await shop.enqueue(fails_once)
    async with shop.worker() as worker:
        await worker.drain()
        await live_store.jobs.promote_due(10)
        await worker.drain()
    assert (await shop.get(job_id)).result == "done"


async def test_what_is_left_of_a_stopped_handler_is_written(live_store: Store) -> None:
    """A lazy step goes with whatever ends the attempt: here the worker leaves."""
    begun = asyncio.Event()

    async def waits(ctx: Context) -> str:
        if begun.is_set():
            return await ctx.step("lazy", str, "anew")
        await ctx.step.using(lazy=True)("lazy", str, "kept")
        begun.set()
        await asyncio.Event().wait()
        return "never"

    shop = Shop(live_store, waits)
    job_id = await shop.enqueue(waits)
    async with shop.worker(grace=0.0):
        await asyncio.wait_for(begun.wait(), 10)
    await shop.drain()
    assert (await shop.get(job_id)).result == "kept"
