"""A schedule over a task that returns a flow: the plan's job lives as long as the flow, so overlap,
catch-up and the ledger count the flow's end and not that of the function that built it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.clock import ManualClock
from holdfast.flow.errands import do_errand
from holdfast.flow.ids import child_flow_id
from holdfast.flow.model import FlowState
from holdfast.flow.parents import waits_for
from holdfast.job.ends import Cancelled, End, Raised, Returned, WasSuspended
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.schedule.model import CatchUp, Decision, Overlap
from holdfast.store.contract.records import Want
from holdfast.store.contract.store import Store
from tests.support.flows import new_flow
from tests.support.schedule_scene import Scene

START = datetime(2027, 1, 1, tzinfo=UTC)
FIRED, COALESCED, SKIPPED = Decision.FIRED, Decision.COALESCED, Decision.SKIPPED
MISSED, WAITING = Decision.MISSED, Decision.WAITING
NODES = "nodes"
"""The queue of the nodes, so that a claim of the parents' queue finds parents alone."""
DONE = Returned("1")
BROKEN = Raised("ValueError", "broken", final=True)


class FlowScene(Scene):
    """What a worker does with jobs that are flows, step by step."""

    async def begin_flows(self) -> list[JobId]:
        """Run the functions of all ready jobs: each starts its flow, and the job gives its slot
        back."""
        parents = await self.claim()
        for job in parents:
            flow = new_flow(
                {"a": [], "b": ["a"]},
                id=child_flow_id(job.id),
                parent=job.id,
                fence=job.fence,
                node_options={name: {"queue": NODES} for name in "ab"},
            )
            await self.store.flows.start([flow])
            [live] = await self.live(job.id)
            await self.store.jobs.finish([decide(live, WasSuspended(None, waits_for(flow.id)))])
        return [job.id for job in parents]

    async def run_nodes(self, end: End = DONE) -> None:
        """Run all nodes to their end. Nobody does an errand meanwhile."""
        while nodes := await self._nodes():
            await self.store.jobs.finish([decide(node, end) for node in nodes])

    async def _nodes(self) -> list[Claimed]:
        await self.claim(0)
        return await self.store.jobs.claim(self.worker, [Want(NODES, 100)], ["greet"])

    async def do_errands(self) -> None:
        while some := await self.store.flows.errands(10):
            for errand in some:
                assert await do_errand(self.store, errand)

    async def end_flows(self, end: End = DONE) -> None:
        await self.run_nodes(end)
        await self.do_errands()

    async def flow_of(self, job: JobId) -> FlowState:
        [flow] = await self.store.flows.get([child_flow_id(job)])
        return flow.state

    async def states(self) -> list[JobState | None]:
        """What the ledger shows of the jobs of its plans."""
        return [row.state for row in await self.rows()]


@pytest.fixture
def scene(store: Store, clock: ManualClock) -> FlowScene:
    clock.now = START
    return FlowScene(store, clock)


async def test_overlap_skip_counts_the_flow_and_not_the_function(scene: FlowScene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.SKIP)
    await scene.after(minutes=10)
    [job] = await scene.begin_flows()
    await scene.after(minutes=10)
    _, second = await scene.rows()
    assert (second.decision, second.reason) == (SKIPPED, f"overlap: job {job} has not ended")
    await scene.end_flows()
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", SKIPPED), ("00:30", FIRED)]


async def test_overlap_queue_one_waits_until_the_flow_has_ended(scene: FlowScene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.QUEUE_ONE)
    await scene.after(minutes=10)
    await scene.begin_flows()
    await scene.after(minutes=10)
    await scene.after(minutes=10)
    waiting = [("00:10", FIRED), ("00:20", WAITING), ("00:30", SKIPPED)]
    assert await scene.decisions() == waiting
    await scene.run_nodes()
    await scene.after(seconds=1)
    assert await scene.decisions() == waiting, "the job of the first plan has not ended yet"
    await scene.do_errands()
    await scene.after(seconds=1)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", FIRED), ("00:30", SKIPPED)]


async def test_overlap_replace_cancels_the_flow_of_the_plan_before(scene: FlowScene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.REPLACE)
    await scene.after(minutes=10)
    [first] = await scene.begin_flows()
    await scene.after(minutes=10)
    assert await scene.states() == [JobState.CANCELLED, JobState.READY]
    await scene.do_errands()
    assert await scene.flow_of(first) is FlowState.CANCELLED
    assert await scene._nodes() == []
    [second] = await scene.begin_flows()
    await scene.end_flows()
    assert await scene.flow_of(second) is FlowState.SUCCEEDED
    assert await scene.states() == [JobState.CANCELLED, JobState.SUCCEEDED]


async def test_overlap_allow_runs_a_flow_beside_another(scene: FlowScene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.ALLOW)
    await scene.after(minutes=10)
    one = await scene.begin_flows()
    await scene.after(minutes=10)
    other = await scene.begin_flows()
    assert [await scene.flow_of(job) for job in one + other] == [FlowState.RUNNING] * 2
    await scene.end_flows()
    assert await scene.states() == [JobState.SUCCEEDED] * 2


@pytest.mark.parametrize(
    ("catch_up", "decisions"),
    [
        (CatchUp.ALL, [("00:10", FIRED), ("00:20", FIRED), ("00:30", FIRED)]),
        (CatchUp.LATEST, [("00:10", COALESCED), ("00:20", COALESCED), ("00:30", FIRED)]),
        (CatchUp.NONE, [("00:10", MISSED), ("00:20", MISSED), ("00:30", MISSED)]),
    ],
)
async def test_plans_that_were_late_start_flows_as_the_catch_up_says(
    scene: FlowScene, catch_up: CatchUp, decisions: list[tuple[str, Decision]]
) -> None:
    await scene.declare(cron="*/10 * * * *", catch_up=catch_up)
    await scene.after(minutes=38)
    assert await scene.decisions() == decisions
    jobs = await scene.begin_flows()
    assert len(jobs) == [decision for _, decision in decisions].count(FIRED)
    await scene.end_flows()
    assert [await scene.flow_of(job) for job in jobs] == [FlowState.SUCCEEDED] * len(jobs)


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (DONE, JobState.SUCCEEDED),
        (BROKEN, JobState.FAILED),
        (Cancelled("not wanted"), JobState.CANCELLED),
    ],
)
async def test_the_ledger_shows_what_the_flow_has_come_to(
    scene: FlowScene, end: End, state: JobState
) -> None:
    await scene.declare(cron="*/10 * * * *")
    await scene.after(minutes=10)
    [job] = await scene.begin_flows()
    assert [row.job_id for row in await scene.rows()] == [job]
    assert await scene.states() == [JobState.SUSPENDED]
    await scene.run_nodes(end)
    assert await scene.states() == [JobState.SUSPENDED]
    await scene.do_errands()
    assert await scene.states() == [state]
    assert (await scene.store.schedules.unfinished("job", [""])).get("", []) == []
