"""Within a queue the lowest priority number is first, then who came first."""

from __future__ import annotations

from holdfast import App
from holdfast.testing import Harness

app = App("sqlite://")
ran: list[str] = []


@app.task()
async def note(name: str) -> None:
    ran.append(name)


async def test_jobs_run_by_priority_and_then_by_arrival() -> None:
    ran.clear()
    async with app:
        for name, priority in (("late", 5), ("first", -1), ("second", 0), ("third", 0)):
            await note.using(priority=priority).enqueue(name)
        async with app.worker({"default": 1}) as worker:
            await worker.drain()
    assert ran == ["first", "second", "third", "late"]


async def test_an_operator_can_change_the_priority_of_a_job_that_waits() -> None:
    ran.clear()
    async with Harness(app):
        await note.enqueue("first")
        urgent = await note.enqueue("urgent")
        await app.client.reprioritise(urgent.id, -10)
        async with app.worker({"default": 1}) as worker:
            await worker.drain()
    assert ran == ["urgent", "first"]
