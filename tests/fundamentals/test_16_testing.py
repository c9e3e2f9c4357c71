"""How to test tasks of your own: a store in memory and a clock that the test moves."""

from __future__ import annotations

import pytest

from holdfast import App, Context
from holdfast.testing import Harness

app = App("sqlite:///shop.db")  # the harness never touches it


@app.task(queue="mail")
async def send_email(ctx: Context, to: str) -> str:
    await ctx.progress(1.0, "sent")
    return f"sent to {to}"


async def sign_up(to: str) -> None:
    """The code under test."""
    await send_email.using(delay=300).enqueue(to)


async def test_the_code_under_test_enqueues() -> None:
    async with Harness(app) as harness:
        await sign_up("ann")
        await harness.assert_enqueued(send_email, to="ann")
        await harness.assert_not_enqueued(send_email, to="bob")


async def test_time_passes_when_the_test_says_so() -> None:
    async with Harness(app) as harness:
        await sign_up("ann")
        assert (await harness.drain()).attempts == 0
        await harness.advance(minutes=5)
        assert (await harness.drain()).attempts == 1


async def test_one_call_can_be_run_on_the_spot() -> None:
    async with Harness(app) as harness:
        ran = await harness.run(send_email, "ann")
        assert ran.result == "sent to ann"
        assert [report.message for report in ran.progress] == ["sent"]


async def test_a_failed_expectation_says_what_there_is() -> None:
    async with Harness(app) as harness:
        await sign_up("ann")
        with pytest.raises(AssertionError, match="ann"):
            await harness.assert_enqueued(send_email, to="bob")
