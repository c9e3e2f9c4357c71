"""A nightly report for each tenant, run under a clock that the program moves itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from holdfast import App
from holdfast.testing import Harness

app = App("sqlite:///schedule.db")


@app.scopes("tenants")
async def tenants() -> AsyncIterator[str]:
    """In a real program: a query. A tenant that is new tomorrow gets its report tomorrow."""
    for name in ("acme", "globex"):
        yield name


@app.schedule(
    "30 2 * * *",
    timezone="Europe/Berlin",
    scopes="tenants",
    scope_as="tenant",
    plan_as="night",
    catch_up="latest",
    overlap="skip",
)
@app.task(queue="reports", timeout=600)
async def report(tenant: str, night: datetime) -> str:
    return f"{tenant} {night:%Y-%m-%d}"


async def main() -> None:
    """In production a worker evaluates the schedules; here the harness does, on its own clock."""
    async with Harness(app, start=datetime(2027, 3, 1, 1, 0, tzinfo=UTC)) as harness:
        for plan in await app.client.schedules.preview(report.name, limit=2):
            print(f"next: {plan.at:%Y-%m-%d %H:%M} UTC")
        await harness.advance(hours=1)
        await harness.drain()
        for row in await app.client.schedules.history(report.name):
            print(f"{row.scope}: {row.decision}, {row.state}")


if __name__ == "__main__":
    asyncio.run(main())
