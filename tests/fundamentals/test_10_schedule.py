"""A schedule starts jobs by the calendar; the ledger has a row for every plan that was due."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast import App, Decision
from holdfast.testing import Harness

app = App("sqlite://")


@app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin", args=("team@example.org",))
@app.task()
async def digest(to: str) -> str:
    return f"digest for {to}"


@app.scopes("tenants")
async def tenants() -> list[str]:
    return ["acme", "globex"]


@app.schedule("@daily", scopes="tenants", scope_as="tenant", plan_as="day")
@app.task()
async def bill(tenant: str, day: datetime) -> str:
    return f"{tenant} on {day:%a}"


MONDAY = datetime(2027, 3, 1, 7, 59, tzinfo=UTC)


async def test_a_plan_starts_its_job_when_it_is_due() -> None:
    async with Harness(app, start=MONDAY) as harness:
        assert await harness.enqueued(digest) == []
        await harness.advance(minutes=1)  # nine o'clock in Berlin
        await harness.assert_enqueued(digest, to="team@example.org")
        await harness.drain()
        [row] = await app.client.schedules.history(digest.name)
        assert (row.decision, row.state) == (Decision.FIRED, "succeeded")


async def test_a_schedule_can_have_a_life_for_each_scope() -> None:
    async with Harness(app, start=MONDAY) as harness:
        await harness.advance(hours=17)
        jobs = await harness.enqueued(bill)
        await harness.drain()
        results = [await bill.job(job.id).result() for job in jobs]
        assert sorted(results) == ["acme on Tue", "globex on Tue"]


async def test_a_paused_schedule_starts_nothing() -> None:
    async with Harness(app, start=MONDAY) as harness:
        await app.client.schedules.pause(digest.name)
        await harness.advance(minutes=1)
        assert await harness.enqueued(digest) == []
