"""Absurd: the steps of a task are checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.scripts.absurd import AbsurdPeer, app
from bench.peers.scripts.marks import mark
from bench.peers.scripts.step_peer import StepPeer


async def charge() -> dict[str, str | int]:
    return {"id": "ch_1234567890", "amount": 4200, "currency": "EUR"}


@app.register_task("steps")
async def steps(params: Any, ctx: Any) -> None:
    mark(params["number"])
    for n in range(params["count"]):
        await ctx.step(f"step {n}", charge)


class AbsurdStepsPeer(AbsurdPeer, StepPeer):
    async def enqueue_steps(self, numbers: Sequence[int], steps: int) -> None:
        for number in numbers:
            await app.spawn("steps", {"number": number, "count": steps})
