"""One job and the signals and votes that it is sent, in any order, on every store, beside a small
model.

F9: a kept signal is never lost: sent = consumed + kept, and each is consumed once; each person of a
question counts once, and a vote that is accepted came before the question was closed. F10: a
suspended job has a wait or a timer, and what it waits for is not there.
"""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.clock import ManualClock
from holdfast.job.ends import HandedBack, Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.signal import NewSignal, Sent
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.vote import Invited, closing_step
from holdfast.store.contract.signals import overlooked
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.conformance.signalling import LIMITS, send, signals_of, take, wait
from tests.properties.test_flows import loop_store

__all__ = ["loop_store"]
PEOPLE = {who: Invited("", "leads", who).signal for who in ("ann", "bob", "cyd")}
PLAIN = ["a", "b", "c"]
NAMES = [*PLAIN, *PEOPLE.values()]
KEYS = ["1", "2", "3", "4", "5"]
STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(PLAIN), st.sampled_from(KEYS)),
    st.tuples(st.just("vote"), st.sampled_from([*PEOPLE]), st.booleans()),
    st.tuples(st.just("wait"), st.sets(st.sampled_from(NAMES), min_size=1), st.booleans()),
    st.tuples(st.sampled_from(["take", "zombie takes"]), st.sampled_from(NAMES), st.just("")),
    st.tuples(
        st.sampled_from(["claim", "lose", "resume", "pass time", "close"]), st.just(""), st.just("")
    ),
)

Step = tuple[str, str | set[str], str | bool]
CLAIM: Step = ("claim", "", "")
SEND: Step = ("send", "a", "1")
WAIT: Step = ("wait", {"a"}, False)
VOTE: Step = ("vote", "ann", True)
CLOSE: Step = ("close", "", "")
"""Both orders of these are tried whatever chance does."""


class Model:
    """What must be true. `kept` has the keys of kept signals by name, `taken` those that were
    consumed; `awaited` is what the job is suspended for. `closed` says that every vote is late."""

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {name: [] for name in NAMES}
        self.taken: list[str] = []
        self.awaited: set[str] = set()
        self.closed = False
        self.state = JobState.READY

    @property
    def keys(self) -> set[str]:
        return {*self.taken, *(key for keys in self.kept.values() for key in keys)}

    def wakes(self) -> bool:
        return any(self.kept[name] for name in self.awaited)

    def settle(self) -> None:
        if self.state is JobState.SUSPENDED and self.wakes():
            self.state = JobState.READY


class Walk:
    """One job of a store and its model."""

    def __init__(self, scene: Scene, job: JobId) -> None:
        self.scene, self.job, self.model = scene, job, Model()
        self.claimed: Claimed | None = None
        self.zombies: list[Claimed] = []
        self.steps = 0

    async def step(self, word: str, what: str | set[str], more: str | bool) -> None:
        match word, what:
            case "send", str(name):
                sent = await send(self.scene, self.job, name, f'"{more}"', str(more))
                self.sent(name, str(more), sent)
            case "vote", str(who):
                await self.vote(who, str(more).lower())
            case "wait", set(names):
                await self.wait(names, 60.0 if more else None)
            case (("take" | "zombie takes"), str(name)):
                await self.take(name, is_zombie=word != "take")
            case _:
                await self.move(word)

    async def vote(self, who: str, value: str) -> None:
        """A person answers, as often as chance says."""
        vote = NewSignal(self.job, PEOPLE[who], value, who, before=closing_step("leads"))
        [sent] = await self.scene.store.signals.send([vote], LIMITS)
        if self.model.closed and who not in self.model.keys:
            assert sent is Sent.LATE, "F9: nobody is told that a vote counts which does not"
        else:
            self.sent(PEOPLE[who], who, sent)

    async def close(self) -> None:
        if self.claimed is not None:
            self.steps += 1
            closing = closing_step("leads")
            record = StepRecord(self.job, self.claimed.fence, closing, self.steps, result="true")
            assert await self.scene.store.steps.record([record]) == [True]
            self.model.closed = True

    def sent(self, name: str, key: str, sent: Sent) -> None:
        model, was = self.model, self.model.state
        if key in model.keys:
            assert sent is Sent.DUPLICATE, "F9: each person, and each key, counts once"
            return
        model.kept[name].append(key)
        model.settle()
        woke = was is JobState.SUSPENDED and model.state is JobState.READY
        assert sent is (Sent.WOKE if woke else Sent.KEPT)

    async def wait(self, names: set[str], seconds: float | None) -> None:
        if self.claimed is None:
            return
        self.steps += 10
        verdict = await wait(
            self.scene, self.claimed, *sorted(names), seconds=seconds, n=self.steps
        )
        assert verdict.accepted
        self.zombies.append(self.claimed)
        self.claimed = None
        self.model.state, self.model.awaited = JobState.SUSPENDED, set(names)
        self.model.settle()

    async def take(self, name: str, *, is_zombie: bool) -> None:
        by = (self.zombies[-1] if self.zombies else None) if is_zombie else self.claimed
        kept = [
            one
            for one in await signals_of(self.scene, self.job)
            if one.name == name and one.taken_by is None
        ]
        if by is None or not kept:
            return
        self.steps += 1
        assert await take(self.scene, by, kept[0], f"step {self.steps}") is not is_zombie
        if not is_zombie:
            assert kept[0].key == self.model.kept[name].pop(0), "the oldest first"
            self.model.taken.append(kept[0].key)

    async def move(self, word: str) -> None:
        model, jobs = self.model, self.scene.store.jobs
        if word == "close":
            await self.close()
        elif word == "claim" and model.state is JobState.READY:
            self.claimed = await self.scene.claim_one()
            model.state = JobState.RUNNING
        elif word == "lose" and self.claimed is not None:
            [live] = await jobs.live([self.job])
            how = Reclaimed("lost") if self.steps % 2 else HandedBack()
            await jobs.finish([decide(live, how)])
            self.zombies.append(self.claimed)
            self.claimed, model.state = None, JobState.READY
        elif word == "resume" and await jobs.resume([self.job]):
            assert model.state is JobState.SUSPENDED
            model.state = JobState.READY
        elif word == "pass time":
            self.scene.clock.advance(61)
            if (await jobs.promote_due(10)).count:
                assert model.state is JobState.SUSPENDED
                model.state = JobState.READY

    async def check(self) -> None:
        signals, model = await signals_of(self.scene, self.job), self.model
        kept = {
            name: [s.key for s in signals if s.name == name and not s.taken_by] for name in NAMES
        }
        assert kept == model.kept, "F9: what is kept"
        taken = [one.key for one in signals if one.taken_by is not None]
        assert sorted(taken) == sorted(model.taken), "F9: what is consumed"
        assert await self.scene.state(self.job) is model.state
        waits = [one for one in await self.scene.store.signals.waits(100) if one.id == self.job]
        suspended = model.state is JobState.SUSPENDED
        assert {one.signal for one in waits} == (model.awaited if suspended else set()), "F10"
        assert await overlooked(self.scene.store.signals, waits) == [], "F10: none is overlooked"


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(steps=st.lists(STEPS, max_size=25))
@example(steps=[CLAIM, SEND, WAIT])
@example(steps=[CLAIM, WAIT, SEND])
@example(steps=[CLAIM, VOTE, CLOSE, ("vote", "bob", True), VOTE])
@example(steps=[CLAIM, CLOSE, VOTE, ("lose", "", ""), VOTE, CLAIM, VOTE])
@example(
    steps=[CLAIM, ("wait", {*PEOPLE.values()}, True), VOTE, CLAIM, ("take", PEOPLE["ann"], "")]
)
@example(steps=[CLAIM, SEND, ("take", "a", ""), WAIT, ("send", "a", "2")])
def test_no_signal_is_lost_and_none_is_consumed_twice(
    loop_store: tuple[asyncio.Runner, Store, ManualClock],
    steps: list[Step],
) -> None:
    runner, store, clock = loop_store
    runner.run(_walk(store, clock, steps))


async def _walk(store: Store, clock: ManualClock, steps: list[Step]) -> None:
    scene = await Scene.on(store, clock)
    walk = Walk(scene, await scene.enqueue())
    for word, what, more in steps:
        await walk.step(word, what, more)
        await walk.check()
    if walk.claimed is None and walk.model.state is JobState.SUSPENDED:
        await store.jobs.resume([walk.job])
    if walk.claimed is None:
        await scene.claim_one()
    [live] = await store.jobs.live([walk.job])
    await scene.finish(live)
    await store.workers.deregister(scene.worker)
