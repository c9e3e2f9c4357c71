"""Something around every job: here the tenant that enqueued it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from holdfast import App, Context, Event, current_job

app = App("sqlite://")
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@app.on_enqueue
def carry(task: str) -> Mapping[str, str]:
    return {"tenant": tenant.get()}


@app.around_attempt
async def for_tenant(ctx: Context, run: Callable[[], Awaitable[Any]]) -> Any:
    token = tenant.set(ctx.job.headers["tenant"])
    try:
        return await run()
    finally:
        tenant.reset(token)


@app.task(name="report")
def report() -> str:
    job = current_job()
    assert job is not None
    return f"{job.task} for {tenant.get()}"


async def test_a_job_runs_for_the_tenant_that_enqueued_it() -> None:
    succeeded: list[Event] = []
    unsubscribe = app.events.subscribe(succeeded.append, "job.succeeded")
    async with app:
        token = tenant.set("acme")
        job = await report.enqueue()
        tenant.reset(token)
        async with app.worker() as worker:
            await worker.drain()
        assert await job.result() == "report for acme"
    unsubscribe()
    assert [event.fields["job_id"] for event in succeeded] == [job.id]
