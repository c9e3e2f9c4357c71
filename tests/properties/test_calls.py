"""One caller and what it calls, in any order, on every store, beside a small model.

F8: at most one end is recorded of a call, none by an old fence, and no recorded call starts a
second child. F10: a suspended caller waits for something that will wake it: a child that is live,
or a telling that is owed. A cancel of the caller goes down to what is live. F14: when faults stop,
the caller gets the end of each child.
"""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.background.cancelling import cancel_jobs
from holdfast.clock import ManualClock
from holdfast.flow.calls import CallEnd, end_of_call
from holdfast.flow.errands import do_errand
from holdfast.flow.ids import new_node_id
from holdfast.flow.model import FlowId, FlowInfo
from holdfast.job.call import end_signal
from holdfast.job.ends import Reclaimed, Returned, WasSuspended
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.signal import SignalWait
from holdfast.job.state import ENDED, JobState
from holdfast.job.step import StepRecord
from holdfast.store.contract.signals import overlooked
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, Scene
from tests.properties.test_flows import loop_store
from tests.properties.walking import walked
from tests.support.flows import new_flow

__all__ = ["loop_store"]
CHILDREN = "children"
WORDS = ["call", "record only", "leave", "lose", "claim", "returns", "fails", "errand", "look"]
STEPS = st.sampled_from([*WORDS, *WORDS, "cancel", "zombie"])
MOST_CALLS = 4


class Walk:
    """A caller as its worker plays it. `flows` has the flow of each call, `seen` what was
    recorded."""

    def __init__(self, scene: Scene, job: JobId) -> None:
        self.scene, self.store, self.job = scene, scene.store, job
        self.flows: dict[str, FlowId] = {}
        self.seen: dict[str, str] = {}
        self.claimed: Claimed | None = None
        self.zombies: list[Claimed] = []
        self.n = 0

    async def step(self, word: str) -> None:  # noqa: C901 - one arm for each word
        match word:
            case "call" | "record only" if self.claimed and len(self.flows) < MOST_CALLS:
                await self.call(word == "call")
            case "leave" if self.claimed:
                await self.leave(self.claimed)
            case "lose" if self.claimed:
                [live] = await self.store.jobs.live([self.job])
                await self.store.jobs.finish([decide(live, Reclaimed("its worker died"))])
                self.forget()
            case "claim" if self.claimed is None:
                await self.claim()
            case "returns" | "fails":
                await self.end_child(word == "returns")
            case "errand":
                for errand in (await self.store.flows.errands(10))[:1]:
                    await do_errand(self.store, errand)
            case "look" if self.claimed:
                await self.look(self.claimed)
            case "zombie" if self.zombies:
                await self.zombie(self.zombies[-1])
            case "cancel":
                await cancel_jobs(self.store.jobs, [self.job])

    def forget(self) -> None:
        if self.claimed is not None:
            self.zombies.append(self.claimed)
        self.claimed = None

    def record(self, by: Claimed, step: str, **said: object) -> StepRecord:
        self.n += 1
        return StepRecord(by.id, by.fence, step, self.n, **said)  # type: ignore[arg-type]

    async def claim(self) -> None:
        """Calls that were recorded and not started are started: their records name the flows."""
        for one in await self.scene.claim(1):
            self.claimed = one
            for flow in self.flows.values():
                await self.start(one, flow)

    async def start(self, by: Claimed, flow: FlowId) -> str:
        options = {"a": {"queue": CHILDREN}}
        new = new_flow(
            {"a": []}, id=flow, parent=by.id, fence=by.fence, keep={}, node_options=options
        )
        [started] = await self.store.flows.start([new])
        return started.how

    async def call(self, starts: bool) -> None:
        assert self.claimed is not None
        step, flow = f"call {len(self.flows)}", FlowId(new_node_id(FlowId(self.job)))
        record = self.record(self.claimed, step, awaits=end_signal(flow))
        if await self.store.steps.record([record]) == [True]:
            self.flows[step] = flow
            if starts:
                assert await self.start(self.claimed, flow) == "created"
            else:
                await self.step("lose")  # the worker died between the two

    async def leave(self, by: Claimed) -> None:
        """Suspended for all calls that have no recorded end."""
        waits = [
            self.record(by, step, awaits=end_signal(flow))
            for step, flow in self.flows.items()
            if step not in self.seen
        ]
        if waits:
            [live] = await self.store.jobs.live([self.job])
            move = decide(live, WasSuspended(None, "waits"))
            await self.store.jobs.finish([msgspec.structs.replace(move, steps=tuple(waits))])
            self.forget()

    async def look(self, by: Claimed) -> None:
        """What has come to something is recorded. An attempt does not look for what it has called
        itself: it leaves first."""
        steps = (await self.store.steps.load([self.job])).get(self.job, [])
        own = {step.name for step in steps if step.fence == by.fence}
        for step, flow in self.flows.items():
            known = step in self.seen or step in own
            end = None if known else await end_of_call(self.store, flow, None)
            if end is not None:
                await self.keep(by, step, flow, _shown(end))

    async def keep(self, by: Claimed, step: str, flow: FlowId, result: str) -> None:
        sent = (await self.store.signals.of([self.job])).get(self.job, [])
        told = [one.n for one in sent if one.name == end_signal(flow) and not one.taken_by]
        record = self.record(by, step, result=result, takes=told[0] if told else None)
        if await self.store.steps.record([record]) == [True]:
            self.seen[step] = result

    async def end_child(self, returns: bool) -> None:
        for child in await self.scene.claim(1, CHILDREN):
            [live] = await self.store.jobs.live([child.id])
            end = Returned("7") if returns else FAILED
            move = decide(live, end, cancel_requested=live.cancel_requested)
            assert (await self.store.jobs.finish([move]))[0].accepted

    async def zombie(self, by: Claimed) -> None:
        """F8: nothing is recorded or started by an old fence."""
        flow = FlowId(new_node_id(FlowId(self.job)))
        assert await self.store.steps.record([self.record(by, "call 0", result="0")]) == [False]
        assert await self.start(by, flow) == "not held"
        assert await self.store.flows.get([flow]) == []

    # What must be true ------------------------------------------------------------------------

    async def check(self) -> None:
        steps = (await self.store.steps.load([self.job])).get(self.job, [])
        results = {step.name: step.result_json for step in steps if step.result_json is not None}
        assert results == self.seen, "F8: what is recorded stays"
        children = (await self.store.flows.children([self.job])).get(self.job, [])
        assert set(children) <= set(self.flows.values()), "F8: one child for each call"
        await self.check_suspended()

    async def check_suspended(self) -> None:
        waits = [one for one in await self.store.signals.waits(100) if one.id == self.job]
        state = await self.scene.state(self.job)
        assert bool(waits) is (state is JobState.SUSPENDED), "F10: it has a wait"
        if not waits:
            return
        assert await overlooked(self.store.signals, waits) == [], "F10: none is overlooked"
        awaited = [flow for flow in self.flows.values() if end_signal(flow) in _names(waits)]
        flows = await self.store.flows.get(awaited)
        owed = {errand.flow for errand in await self.store.flows.errands(100)}
        assert all(not flow.ended or flow.id in owed for flow in flows), "F10: it will be told"

    async def finish(self) -> None:
        """F14: without faults, the caller gets all ends and returns; or all that it called is
        cancelled with it."""
        state, flows = await self.scene.state(self.job), list[FlowInfo]()
        for _ in range(30):
            await self.step("claim")
            await self.step("look")
            state = await self.scene.state(self.job)
            if self.claimed and self.flows.keys() == self.seen.keys():
                [live] = await self.store.jobs.live([self.job])
                await self.store.jobs.finish([decide(live, Returned(None))])
                self.claimed = None
            elif self.claimed and state is JobState.RUNNING:
                await self.step("leave")
            await self.step("returns")
            for _ in range(10):
                await self.step("errand")
            await self.check()
            flows = await self.store.flows.get(list(self.flows.values()))
            is_over = state in ENDED and all(flow.ended for flow in flows)
            if is_over and not await self.store.flows.errands(1):
                return
        owed = await self.store.flows.errands(10)
        raise AssertionError(f"F14: the caller is {state}, its flows {flows}, owed {owed}")


def _shown(end: CallEnd) -> str:
    return (end.results[0] or "null") if end.failure is None else '"failed"'


def _names(waits: list[SignalWait]) -> set[str]:
    return {one.signal for one in waits}


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(steps=st.lists(STEPS, max_size=25))
@example(steps=["claim", "call", "returns", "errand", "leave", "claim", "look"])
@example(steps=["claim", "call", "leave", "returns", "errand", "claim", "look"])
@example(steps=["claim", "call", "returns", "leave", "errand", "claim", "look"])
@example(steps=["claim", "record only", "claim", "leave", "fails", "errand"])
@example(steps=["claim", "call", "call", "leave", "cancel", "returns", "errand", "errand"])
@example(steps=["claim", "call", "call", "call", "call", "leave", "cancel"])
def test_no_call_is_made_twice_and_no_end_is_missed(
    loop_store: tuple[asyncio.Runner, Store, ManualClock], steps: list[str]
) -> None:
    runner, store, clock = loop_store
    runner.run(walked(Walk, store, clock, steps))
