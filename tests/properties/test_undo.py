"""One job and the undoing of its steps, in any order, on every store.

F13: undo runs for exactly the recorded steps with undo of a job that ended badly, once each, in
reverse. F8: none is recorded by an old fence.
"""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.background.cancelling import cancel_jobs
from holdfast.clock import ManualClock
from holdfast.flow.errands import do_errand
from holdfast.flow.ids import undo_flow_id
from holdfast.job.ends import End, Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import encode_policy
from holdfast.job.record import Claimed
from holdfast.job.state import ENDED, UNDONE
from holdfast.job.step import StepRecord
from holdfast.job.undo import Undo, encode_undo
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, RETURNED, STEADY, Scene
from tests.properties.test_flows import loop_store
from tests.properties.walking import walked

__all__ = ["loop_store"]
QUEUE = "undo"
UNDO = encode_undo(Undo("undo", "name", QUEUE, encode_policy(STEADY)))
ENDS = ["fail", "return", "cancel"]
STEPS = st.sampled_from(
    [*["claim", "do", "do plainly", "lose"] * 2, *ENDS, "zombie", "errand", "undo", "undo fails"]
)


class Walk:
    """`done` has the steps that are recorded and can be undone, `undone` what was undone."""

    def __init__(self, scene: Scene, job: JobId) -> None:
        self.scene, self.store, self.job = scene, scene.store, job
        self.done: list[str] = []
        self.undone: list[str] = []
        self.claimed: Claimed | None = None
        self.zombies: list[Claimed] = []
        self.n = 0

    async def step(self, word: str) -> None:
        match word:
            case "claim" if self.claimed is None:
                self.claimed = next(iter(await self.scene.claim(1)), None)
            case "do" | "do plainly" if self.claimed:
                await self.do(self.claimed, UNDO if word == "do" else None)
            case "zombie" if self.zombies:
                assert not await self.do(self.zombies[-1], UNDO), "F8: an old fence"
            case "cancel":
                await cancel_jobs(self.store.jobs, [self.job])
            case "fail" | "return" | "lose" if self.claimed:
                await self.end(word)
            case "errand":
                for errand in (await self.store.flows.errands(10))[:1]:
                    await do_errand(self.store, errand)
                    await do_errand(self.store, errand)  # a second doer does no harm
            case "undo" | "undo fails":
                await self.undo(fails=word == "undo fails")

    async def do(self, by: Claimed, undo: str | None) -> bool:
        self.n += 1
        name = f"step {self.n}"
        record = StepRecord(by.id, by.fence, name, self.n, result=f'"{name}"', undo=undo)
        [kept] = await self.store.steps.record([record])
        if kept and undo is not None:
            self.done.append(name)
        return kept

    async def end(self, word: str) -> None:
        assert self.claimed is not None
        live = await self.store.jobs.live([self.job])
        ends: dict[str, End] = {"fail": FAILED, "return": RETURNED, "lose": Reclaimed("lost")}
        how = ends[word]
        await self.store.jobs.finish(
            [decide(one, how, cancel_requested=one.cancel_requested) for one in live]
        )
        self.zombies.append(self.claimed)
        self.claimed = None

    async def undo(self, *, fails: bool) -> None:
        for job in await self.scene.claim(5, QUEUE, tasks=["undo"]):
            self.undone.append(job.args.split('"')[3])
            assert (await self.scene.finish(job, FAILED if fails else RETURNED)).accepted

    async def check(self) -> None:
        state = await self.scene.state(self.job)
        wanted = self.done[::-1] if state in UNDONE else []
        assert self.undone == wanted[: len(self.undone)], "F13: the last first, once each"
        owed = [one for one in await self.store.flows.errands(10) if one.job == self.job]
        begun = await self.store.flows.get([undo_flow_id(self.job)])
        assert bool(wanted) is bool(owed or begun), "F13: it is owed, or has begun"

    async def finish(self) -> None:
        for _ in range(50):
            for word in ("claim", "fail", "errand", "undo"):
                await self.step(word)
                await self.check()
            state = await self.scene.state(self.job)
            errands = await self.store.flows.errands(10)
            wanted = self.done[::-1] if state in UNDONE else []
            if state in ENDED and not errands and self.undone == wanted:
                return
        raise AssertionError(f"F13: {self.undone} were undone of {self.done}")


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(steps=st.lists(STEPS, max_size=20))
@example(steps=["claim", "do", "do plainly", "lose", "claim", "do", "fail", "errand", "undo fails"])
@example(steps=["claim", "do", "cancel", "lose", "errand", "undo"])
def test_exactly_the_recorded_steps_are_undone_once_in_reverse(
    loop_store: tuple[asyncio.Runner, Store, ManualClock], steps: list[str]
) -> None:
    runner, store, clock = loop_store
    runner.run(walked(Walk, store, clock, steps))
