"""Flows in a test's own store: nodes that add nodes, and jobs that are flows."""

from __future__ import annotations

from holdfast import App, Context, Flow, FlowState, JobState
from holdfast.testing import Harness

app = App("postgres://nobody.invalid/nothing")  # a harness never touches it


@app.task()
async def double(number: int) -> int:
    return 2 * number


@app.task()
async def report() -> str:
    return "done"


@app.task()
async def grow(ctx: Context) -> None:
    ctx.flow.add(double, 4).before("report")
    await ctx.flow.extend()


@app.task()
def grow_plainly(ctx: Context) -> None:
    ctx.flow.add(double, 5).named("plain").before("report")
    ctx.flow.extend_sync()


@app.flow_task()
async def doubled(number: int) -> Flow:
    flow = app.flow("doubled")
    flow.add(double, flow.add(double, number).output)
    return flow


async def test_handlers_in_a_harness_add_to_their_flows() -> None:
    async with Harness(app) as harness:
        flow = app.flow("growing")
        flow.add(report).after(flow.add(grow), flow.add(grow_plainly))
        run = await flow.start()
        await harness.drain()
        assert (await run.get()).state is FlowState.SUCCEEDED
        nodes = {node.name: node.state for node in await run.nodes()}
        assert nodes == dict.fromkeys(
            ["double", "grow", "grow_plainly", "plain", "report"], JobState.SUCCEEDED
        )


async def test_a_job_that_is_a_flow_ends_with_it_in_a_harness() -> None:
    async with Harness(app) as harness:
        job = await doubled.enqueue(3)
        await harness.drain()
        assert (await job.get()).state is JobState.SUCCEEDED
        assert await job.result() == 12
