"""The keys of a store: their layout has a version, each is documented, and none is left behind."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from holdfast.errors import SchemaTooNew, StoreError
from holdfast.flow.ids import new_node_id
from holdfast.flow.model import CloseWhat, FlowId
from holdfast.job.ends import Skipped
from holdfast.job.policy import Policy, Retention
from holdfast.job.record import Progress
from holdfast.job.signal import NewSignal, SignalLimits
from holdfast.job.step import StepRecord
from holdfast.job.stream import Keep, NewFrames
from holdfast.job.unique import Unique
from holdfast.limits.model import Budget
from holdfast.schedule.model import Decision
from holdfast.store.contract.audit import Act, new_act_id
from holdfast.store.contract.facts import WorkerFacts
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.limits import Take
from holdfast.store.contract.measures import KEPT, JobTimes, Measure, Step
from holdfast.store.contract.operations import (
    Advance,
    OperationProgress,
    OperationRequest,
    OperationState,
    new_operation_id,
)
from holdfast.store.contract.queues import jobs_of
from holdfast.store.contract.records import ProgressReport
from holdfast.store.contract.shelf import Put
from holdfast.store.contract.telemetry import TRAFFIC_KEPT
from holdfast.store.open import open_store
from holdfast.telemetry.sketch import Sketch
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import REACHABLE, Scene, new_job
from tests.conformance.limiting import limited, through
from tests.conformance.planning import Diary
from tests.conformance.signalling import waiting
from tests.support.backends import opened
from tests.support.flows import Trip, Waits, any_of
from tests.support.leftovers import leftovers


async def test_an_older_program_refuses_a_newer_layout(server: ThrowawayValkey, place: str) -> None:
    async with opened(place) as store:
        assert await store.migrate() == []
    [meta] = [key for key in server.keys(place) if key.endswith(":meta")]
    server.say("HSET", meta, "version", 99)
    with pytest.raises(SchemaTooNew, match="99"):
        await open_store(place).open()


async def test_a_store_of_an_older_layout_is_refused(server: ThrowawayValkey, place: str) -> None:
    async with opened(place):
        pass
    [meta] = [key for key in server.keys(place) if key.endswith(":meta")]
    server.say("HSET", meta, "version", 1)
    with pytest.raises(StoreError, match="layout 1; this one needs 6"):
        await open_store(place).open()


def measure(now: datetime) -> Measure:
    run = Sketch.of([1.0])
    return Measure(Step.MINUTE.start_of(now), "a", "b", "c", 1, JobTimes(run, run, run))


async def _some_flows(scene: Scene) -> None:
    """One that waits, owes something and has something to settle; one that has ended; one of which
    a node was skipped and another let go; and one that a job has called."""
    graph: dict[str, Waits] = {"a": [], "b": [], "c": ["a"], "d": any_of("a", "b")}
    trip = await Trip.begin(scene, graph, unique_key="order:1")
    await trip.close(CloseWhat.BLOCKED)
    await scene.store.flows.pause([trip.id])
    await trip.end("a")
    await (await Trip.begin(scene, {"a": []})).end("a")
    skipping = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"]})
    await skipping.end("a", end=Skipped("no"))
    await scene.store.flows.let_go(skipping.id, [skipping.ids["b"]])
    await scene.enqueue(queue="calls")
    [caller] = await scene.claim(1, "calls")
    flow = FlowId(new_node_id(FlowId(caller.id)))
    await Trip.begin(scene, {"a": []}, id=flow, parent=caller.id, fence=caller.fence)


async def _some_limits(scene: Scene) -> None:
    """A line that is open, one that is parked at a bucket which time will open, and a budget of
    which something is to be told."""
    await limited(scene, tenant=5)
    await scene.store.limits.put("tokens", Budget(9, soft=1, every="day"))
    await scene.store.limits.take([Take("tokens:a", 5)])
    await scene.store.limits.drain({"tenant:shut": 3600.0})
    await scene.enqueue(queue="fair", **through(fair="acme", weight=3))
    for bucket in ("tenant:shut", "tenant:open"):
        await scene.enqueue_many(2, queue="limited", **through(bucket))
    assert len(await scene.claim(1, "limited")) == 1


async def test_every_key_is_in_the_reference(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    for state in REACHABLE:
        await scene.in_state(state, queue=state, unique=Unique(state), deadline_in=1e6)
    timed = await scene.running(policy=Policy(timeout=9), queue="timed")
    progress = ProgressReport(timed.id, timed.fence, Progress(0.5))
    await scene.store.jobs.report_progress([progress])
    await scene.store.steps.record([StepRecord(timed.id, timed.fence, "pay", 1, result="1")])
    await scene.store.signals.send([NewSignal(timed.id, "paid", "1", "evt")], SignalLimits(), None)
    await waiting(scene, "paid")
    frames = NewFrames(timed.id, timed.fence, "tokens", 0, 1, "[1]", Keep.LIVE)
    await scene.store.streams.append([frames])
    await scene.store.queues.pause(["quiet", jobs_of("mail.send")])
    await scene.enqueue(queue="quiet", unique=Unique("daily", period=60.0))
    await scene.store.workers.lead("rollup", scene.worker, 15)
    await scene.store.workers.deregister(await scene.hire(), WorkerFacts(counts={"claimed": 1}))
    act = Act(id=new_act_id(), by="ann", verb="queues.pause", target="quiet")
    await scene.store.audit.begin(act)
    operation, done = new_operation_id(), OperationProgress(changed=1)
    await scene.store.operations.begin(operation, OperationRequest(verb="cancel"))
    move = Advance(state=OperationState.RUNNING, progress=done, kept="[]")
    await scene.store.operations.advance(operation, 1, move)
    await scene.store.shelf.put("task", [Put(key="greet", value="{}", expires_in=60.0)])
    damaged = await scene.enqueue(queue="damaged")
    [record] = [key for key in server.keys(place) if key.endswith(f":s:{damaged}")]
    server.say("DEL", record)
    await scene.claim(1, "damaged")
    diary = await Diary.of(scene)
    await diary.record(diary.fire(0), diary.plan(1, decision=Decision.FAILED))
    await _some_flows(scene)
    await _some_limits(scene)
    books = scene.store.telemetry
    await books.record([measure(scene.clock.now)])
    scene.clock.advance(180)
    await books.fold(1000)
    await books.roll_up(10)
    await books.record([measure(scene.clock.now)])
    await scene.enqueue()
    page = (Path(__file__).parents[3] / "docs/reference/valkey-keys.md").read_text()
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    documented = {row.rpartition("}")[2].split(":")[1] for row in rows}
    found = {key.partition("}:")[2].split(":")[0] for key in server.keys(place)}
    assert found == documented


async def test_a_line_that_is_empty_leaves_no_key(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    await scene.enqueue_many(3, policy=Policy(retention=Retention(0, 0, 0)))
    for job in await scene.claim(3):
        await scene.finish(job)
    scene.clock.advance(1)
    assert await scene.store.jobs.prune(10) == 3
    scene.clock.advance(TRAFFIC_KEPT + 120)
    books = scene.store.telemetry
    await books.fold(100)
    await books.roll_up(10)
    scene.clock.advance(max(KEPT.values()))
    await books.fold(100)
    await books.prune_measures(100)
    kinds = {key.partition("}:")[2] for key in server.keys(place)}
    assert kinds == {"meta", "mark", "leases", "workers", "totals", "closed", "rolled"}


async def test_a_key_that_nothing_removes_is_noticed(server: ThrowawayValkey, place: str) -> None:
    """The fixture that looks after every test has to be able to fail."""
    async with opened(place) as store:
        await store.jobs.insert([new_job(deadline_in=5.0), new_job(delay=9.0)])
        tag = server.keys(place)[0].partition("}")[0].partition(":")[0]
        server.say("SET", f"{tag}:0}}:p:forgotten", "x")
    assert await leftovers(place) == [f"{tag}:0}}:p:forgotten"]


async def test_two_namespaces_share_a_server_without_meeting(server: ThrowawayValkey) -> None:
    one, other = server.new_namespace(), server.new_namespace()
    async with opened(one) as here, opened(other) as there:
        await here.jobs.insert([new_job()])
        assert await there.jobs.count(JobFilter()) == {}
    server.clear(one)
    server.clear(other)
