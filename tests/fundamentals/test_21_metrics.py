"""Metrics: what Prometheus is told of every job that ever moved, and of what waits now."""

from __future__ import annotations

from holdfast import App

app = App("sqlite://")


@app.task(queue="mail")
async def send_email(to: str) -> None: ...


async def test_jobs_are_counted_and_what_waits_is_told() -> None:
    async with app:
        await send_email.enqueue("a@example.org")
        async with app.worker() as worker:
            await worker.drain()
        await send_email.enqueue("b@example.org")
        text = await app.client.telemetry.metrics()
        work = await app.client.telemetry.scale("mail")
    task = send_email.name
    assert f'holdfast_jobs_total{{queue="mail",task="{task}",what="enqueued"}} 2' in text
    assert f'holdfast_jobs_total{{queue="mail",task="{task}",what="succeeded"}} 1' in text
    assert 'holdfast_queue_jobs{queue="mail",state="ready"} 1' in text
    assert work["work"] == 1, "a scaler starts a worker for it"
