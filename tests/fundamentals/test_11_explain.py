"""`explain` names every reason why a job is not running now, and who can change it."""

from __future__ import annotations

from holdfast import App, Who
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(queue="mail")
async def send() -> None: ...


async def test_a_job_without_a_worker_says_so() -> None:
    async with Harness(app):
        job = await send.enqueue()
        explanation = await app.client.explain(job.id)
        assert [reason.code for reason in explanation.reasons] == ["no-workers"]


async def test_a_paused_queue_is_named_with_who_can_resume_it() -> None:
    async with Harness(app):
        job = await send.enqueue()
        await app.client.queues.pause("mail")
        first, *_ = (await app.client.explain(job.id)).reasons
        assert (first.code, first.who) == ("queue-paused", Who.OPERATOR)


async def test_a_delayed_job_waits_for_time() -> None:
    async with Harness(app):
        job = await send.using(delay=60).enqueue()
        first, *_ = (await app.client.explain(job.id)).reasons
        assert first.who is Who.TIME
