"""`life` tells everything that happened to a job: each attempt, each wait, and who changed it."""

from __future__ import annotations

from holdfast import App, Retry, Snooze
from holdfast.testing import Harness

app = App("sqlite://")
seen: list[int] = []


@app.task(queue="mail", retry=Retry(max_attempts=3, base=10, jitter=0))
async def send(number: int) -> None:
    seen.append(number)
    if len(seen) == 1:
        raise ConnectionError("no route to the mail server")
    if len(seen) == 2:
        raise Snooze(60)


async def test_a_job_that_had_trouble_tells_of_it() -> None:
    async with Harness(app) as harness:
        job = await send.enqueue(7)
        await app.client.reprioritise(job.id, -1, by="ann@desk")
        for seconds in (10, 60, 0):
            await harness.drain(raises=False)
            await harness.advance(seconds)
        life = await app.client.life(job.id)

    words = [moment.what.value for moment in life.moments]
    assert words == [
        *("enqueued", "reprioritised"),
        *("claimed", "retried", "promoted"),
        *("claimed", "snoozed", "promoted"),
        *("claimed", "succeeded"),
    ]
    changed, retried = life.moments[1], life.moments[3]
    assert (changed.by, changed.note) == ("ann@desk", "from 0 to -1")
    assert retried.attempt == 1
    assert retried.error is not None
    assert retried.error.message == "no route to the mail server"


async def test_a_plain_job_tells_of_its_claim_and_its_end() -> None:
    seen[:] = [1, 2]
    async with Harness(app) as harness:
        job = await send.enqueue(8)
        await harness.drain()
        life = await job.life()
    assert [moment.what.value for moment in life.moments] == ["enqueued", "claimed", "succeeded"]
