"""Approvals: people are asked by a token each, and enough of their votes decide."""

from __future__ import annotations

import pytest

from holdfast import AnswerRefused, App, Context
from holdfast.testing import Harness

app = App("sqlite://")
mailbox: dict[str, str] = {}


@app.task()
async def release(ctx: Context) -> str:
    asked = ctx.invite("leads", of=["ann", "bob", "cyd"])
    await ctx.step("mail", mailbox.update, asked.tokens)
    vote = await asked.quorum(2, timeout=3_600)
    return "released" if vote.granted else "not released"


async def test_two_of_three_people_let_a_job_go_on() -> None:
    async with Harness(app) as harness:
        job = await release.enqueue()
        await harness.drain()
        await app.client.answer(mailbox["ann"], True)
        with pytest.raises(AnswerRefused):
            await app.client.answer(mailbox["ann"], False)
        await app.client.answer(mailbox["cyd"], {"approve": True, "note": "at last"})
        await harness.drain()
        assert await job.result() == "released"
