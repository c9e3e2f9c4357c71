"""Flows that are cancelled under the hands of a worker that claims their nodes."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.app import App
from holdfast.client.flow_handle import FlowHandle
from holdfast.context import Context
from holdfast.errors import Refused
from holdfast.flow.model import FLOW_LIVE, FlowState, NodeInput
from holdfast.job.ids import JobId
from holdfast.job.record import Claimed
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from tests.support.waiting import wait_until

AT_ONCE = 50


@dataclass
class Witness:
    """In which order a worker asked about nodes, handlers began, and cancels were answered."""

    steps: itertools.count[int] = field(default_factory=itertools.count)
    asked: dict[str, int] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)

    def watch(self, app: App) -> None:
        """Note each question about nodes before it is sent. A claim that brings what a worker needs
        of a node is such a question."""
        flows: Any = app.store.flows
        jobs: Any = app.store.jobs
        inputs, claim = flows.inputs, jobs.claim

        async def noted(ids: Sequence[JobId]) -> dict[JobId, NodeInput]:
            self.asked |= {job: next(self.steps) for job in ids}
            return await inputs(ids)  # type: ignore[no-any-return]

        async def noted_claim(*given: Any) -> list[Claimed]:
            sent = next(self.steps)
            claimed: list[Claimed] = await claim(*given)
            self.asked |= {job.id: sent for job in claimed if job.node is not None}
            return claimed

        flows.inputs, jobs.claim = noted, noted_claim

    async def visit(self, ctx: Context) -> None:
        self.begun[ctx.job.id] = next(self.steps)


async def cancel_while_they_are_claimed(app: App, tries: int) -> None:
    """Start flows, let a worker loose on them, and cancel each at once or a moment later. A node
    whose handler begins was asked about before the cancel of its flow was answered."""
    witness = Witness()
    task = app.task(name="visit", retry=Retry.never())(witness.visit)
    runs: list[FlowHandle] = []
    async with app:
        witness.watch(app)
        async with app.worker({"default": 8}):
            for first in range(0, tries, AT_ONCE):
                some = await asyncio.gather(
                    *(_started(app, task) for _ in range(first, min(first + AT_ONCE, tries)))
                )
                runs += some
                await asyncio.gather(*(_cancelled(run, witness) for run in some))
            await wait_until(lambda: _all_over(app), 60, "every flow ends", look_every=0.1)
        await _judge(runs, witness)


async def _started(app: App, task: Any) -> FlowHandle:
    flow = app.flow("cancelled")
    flow.add(task).named("b").after(flow.add(task).named("a"))
    return await flow.start()


async def _cancelled(run: FlowHandle, witness: Witness) -> None:
    await asyncio.sleep(random.choice((0, 0, 0.002, 0.01, 0.03)))
    try:
        await run.cancel()
    except Refused:
        return  # it had ended
    witness.closed[run.id] = next(witness.steps)


async def _all_over(app: App) -> bool:
    return not FLOW_LIVE & (await app.store.flows.count()).keys()


async def _judge(runs: Sequence[FlowHandle], witness: Witness) -> None:
    begun = never = 0
    for run in runs:
        for node in await run.nodes():
            job = node.job_id
            if run.id not in witness.closed:
                continue
            if job in witness.begun:
                begun += 1
                assert witness.asked[job] < witness.closed[run.id], "F6: it began after the cancel"
            elif job in witness.asked:
                never += 1
                assert node.state is JobState.CANCELLED
        state = (await run.get()).state
        assert (state is FlowState.CANCELLED) == (run.id in witness.closed)
    assert begun, "no node ever began before its flow was cancelled"
    assert never, "no node was ever claimed in a flow that was being cancelled"
