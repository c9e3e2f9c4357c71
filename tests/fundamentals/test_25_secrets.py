"""Arguments that nobody is shown."""

from __future__ import annotations

from typing import Annotated

import pytest

from holdfast import App, Secret
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(redact=("customer.email",))
async def pay(card: Annotated[str, Secret], customer: dict[str, str], token: str) -> str:
    raise ValueError(f"{customer['email']}: the card {card} was refused")


async def test_a_job_is_shown_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async with Harness(app) as harness:
        job = await pay.enqueue("4111-1111", {"email": "ada@example.org", "name": "Ada"}, "t-77")
        await harness.drain(raises=False)
        shown = await app.client.shown.job(await job.get())
    assert shown.args == {
        "card": "***",
        "customer": {"email": "***", "name": "Ada"},
        "token": "***",
    }
    assert shown.errors[0].message == "***: the card *** was refused"
    assert "the card *** was refused" in caplog.text


async def test_a_program_has_every_value() -> None:
    async with Harness(app):
        job = await (await pay.enqueue("4111-1111", {}, "t-77")).get()
    assert job.args["token"] == "t-77"
    assert "t-77" not in repr(job)


async def test_who_reveals_a_job_says_why() -> None:
    async with Harness(app):
        job = await pay.enqueue("4111-1111", {}, "t-77")
        seen = await app.client.reveal(job.id, reason="ticket 4711", by="ann")
        [act] = (await app.client.audit.page(verb="jobs.reveal")).entries
    assert seen.args["card"] == "4111-1111"
    assert (act.by, act.target, act.arguments) == ("ann", job.id, '{"reason":"ticket 4711"}')
