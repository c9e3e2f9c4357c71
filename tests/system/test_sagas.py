"""Sagas: what was done is undone when a job or a flow ends badly for good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast import App, Context, Fail, Refused, Retry
from holdfast.errors import BadFlow, BadOption
from holdfast.flow.ids import flow_undo_id, undo_flow_id
from holdfast.flow.model import FlowInfo
from holdfast.handle import JobHandle
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.testing import Harness, killed_after_every_commit

AGAIN = Retry(max_attempts=3, base=1, jitter=0)


class Trip:
    """An app whose caller reserves things, and releases them again."""

    def __init__(self) -> None:
        self.app = App("sqlite://")
        self.harness = Harness(self.app)
        self.log: list[str] = []
        self.broken: set[str] = set()
        self.handle: JobHandle[Any]

        @self.app.task(name="release", retry=Retry(max_attempts=2, base=1, jitter=0))
        async def release(what: str) -> None:
            if what in self.broken:
                self.log.append(f"cannot release {what}")
                raise RuntimeError("no answer")
            self.log.append(f"release {what}")

        @self.app.task(name="reserve", retry=Retry.never())
        async def reserve(what: str) -> str:
            if what in self.broken:
                raise RuntimeError(f"no {what}")
            self.log.append(f"reserve {what}")
            return what

        self.release, self.reserve = release, reserve

    def book(self, what: str) -> str:
        self.log.append(f"book {what}")
        return what

    async def begin(self, handler: Callable[..., Any], **options: Any) -> JobHandle[Any]:
        self.handle = await self.app.task(**{"retry": AGAIN, **options})(handler).enqueue()
        await self.drain()
        return self.handle

    async def drain(self) -> None:
        await self.harness.drain(raises=False)

    async def later(self) -> None:
        await self.harness.advance(minutes=5)
        await self.drain()

    async def job(self) -> Job:
        return await self.handle.get()

    async def undo(self) -> FlowInfo:
        return await self.app.client.flows.get(undo_flow_id(JobId(self.handle.id)))

    async def explained(self) -> str:
        [reason] = (await self.app.client.explain(self.handle.id)).reasons
        return reason.fact


@pytest.fixture
async def trip() -> AsyncIterator[Trip]:
    trip = Trip()
    async with trip.harness:
        yield trip


async def test_a_failure_undoes_what_was_recorded_in_reverse_order_once(trip: Trip) -> None:
    async def travel(ctx: Context) -> None:
        step = ctx.step.using(undo=trip.release)
        for what in ("seat", "room", "car"):
            await step(what, trip.book, what)
        await ctx.step("note", trip.book, "note")
        raise Fail("no passport")

    await trip.begin(travel)
    undone = ["release car", "release room", "release seat"]
    assert trip.log == ["book seat", "book room", "book car", "book note", *undone]
    assert (await trip.undo()).state == "succeeded"
    await trip.later()
    assert trip.log[4:] == undone, "once each"


async def test_nothing_is_undone_while_another_attempt_may_succeed(trip: Trip) -> None:
    async def travel(ctx: Context) -> str:
        await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
        if ctx.attempt < 3:
            raise RuntimeError("again")
        return "there"

    handle = await trip.begin(travel)
    for _ in range(3):
        await trip.later()
    assert await handle.result(5) == "there"
    assert trip.log == ["book seat"]


async def test_the_last_attempt_undoes(trip: Trip) -> None:
    async def travel(ctx: Context) -> None:
        await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
        raise RuntimeError("again")

    await trip.begin(travel)
    for _ in range(3):
        await trip.later()
    assert (await trip.job()).attempts == 3
    assert trip.log == ["book seat", "release seat"]


async def test_a_cancel_undoes(trip: Trip) -> None:
    async def travel(ctx: Context) -> None:
        await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
        await ctx.sleep("wait", days=1)

    handle = await trip.begin(travel)
    await handle.cancel()
    await trip.drain()
    assert trip.log == ["book seat", "release seat"]


async def test_a_deadline_undoes(trip: Trip) -> None:
    async def travel(ctx: Context) -> None:
        await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
        await ctx.sleep("wait", days=1)

    await trip.begin(travel, deadline=60)
    await trip.later()
    assert (await trip.job()).state == "expired"
    assert trip.log == ["book seat", "release seat"]


async def test_plain_functions_undo_too(trip: Trip) -> None:
    def travel(ctx: Context) -> None:
        ctx.step_sync.using(undo=trip.release)("seat", trip.book, "seat")
        raise Fail("no passport")

    await trip.begin(travel)
    assert trip.log == ["book seat", "release seat"]


async def test_an_undo_that_fails_is_a_dead_letter_and_the_others_run(trip: Trip) -> None:
    async def travel(ctx: Context) -> None:
        step = ctx.step.using(undo=trip.release)
        for what in ("seat", "room", "car"):
            await step(what, trip.book, what)
        raise Fail("no passport")

    trip.broken.add("room")
    await trip.begin(travel)
    assert trip.log[3:] == ["release car", "cannot release room"]
    for _ in range(3):
        await trip.later()
    assert trip.log[4:] == ["cannot release room"] * 2 + ["release seat"], "with its own retries"
    undo = await trip.undo()
    assert (undo.state, undo.failed) == ("failed", 1)
    assert [
        job.args for job in (await trip.app.client.page(task="release", state="failed")).jobs
    ] == [{"what": "room"}]
    assert "3 of 3 done" in await trip.explained()
    trip.broken.clear()
    await trip.app.client.flows.retry(undo.id)
    await trip.drain()
    assert trip.log[-1] == "release room", "an operator runs it again"


async def test_a_step_that_failed_is_not_undone(trip: Trip) -> None:
    async def travel(ctx: Context) -> None:
        def no_room() -> str:
            raise RuntimeError("no room")

        await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
        await ctx.step.using(undo=trip.release)("room", no_room)

    await trip.begin(travel, retry=Retry.never())
    assert trip.log == ["book seat", "release seat"]


async def test_a_job_that_is_undone_is_not_run_again(trip: Trip) -> None:
    async def travel(ctx: Context) -> None:
        await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
        raise Fail("no passport")

    handle = await trip.begin(travel)
    with pytest.raises(Refused, match="its steps are undone; enqueue a new one"):
        await trip.app.client.requeue(handle.id)
    assert "its steps are undone by flow" in await trip.explained()
    await trip.app.client.delete(handle.id)


async def test_what_other_code_records_without_undo_is_not_undone(trip: Trip) -> None:
    def seats() -> int:
        return 2

    async def travel(ctx: Context) -> None:
        if not trip.log:
            await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
            raise RuntimeError("deployed")
        await ctx.step.using(version="2")("seat", seats)
        raise Fail("no passport")

    handle = await trip.begin(travel, retry=AGAIN)
    await trip.later()
    assert trip.log == ["book seat"]
    assert "undone" not in await trip.explained()
    await trip.app.client.requeue(handle.id)


async def test_what_was_called_is_cancelled_and_what_was_done_is_undone(trip: Trip) -> None:
    @trip.app.task(name="wait")
    async def wait(ctx: Context) -> None:
        await ctx.signal("never")

    async def travel(ctx: Context) -> None:
        await ctx.step.using(undo=trip.release)("seat", trip.book, "seat")
        await ctx.call(wait)

    handle = await trip.begin(travel)
    await handle.cancel()
    await trip.drain()
    assert trip.log == ["book seat", "release seat"]
    states = {flow.name: flow.state for flow in await trip.app.client.flows.called_by(handle.id)}
    assert states == {"wait": "cancelled", "undo": "succeeded"}


async def test_a_task_may_be_killed_after_every_commit_and_is_undone_once() -> None:
    trip = Trip()

    @trip.app.task(name="travel", retry=AGAIN)
    async def travel(ctx: Context) -> str:
        step = ctx.step.using(undo=trip.release)
        return await step("seat", trip.book, "seat") + await step("room", trip.book, "room")

    @trip.app.task(name="outer", retry=AGAIN)
    async def outer(ctx: Context) -> str:
        return await ctx.call(travel)

    kills = await killed_after_every_commit(outer)
    assert (kills.result, kills.kills) == ("seatroom", 4)
    assert not [line for line in trip.log if line.startswith("release")]


# Nodes -------------------------------------------------------------------------------------------


async def started(trip: Trip, *, fails: bool) -> str:
    flow = trip.app.flow("trip")
    seat = flow.add(trip.reserve, "seat").named("seat").undo(trip.release)
    room = flow.add(trip.reserve, "room").named("room").undo(trip.release).after(seat)
    flow.add(trip.reserve, "bill" if fails else "note").named("last").after(room)
    if fails:
        trip.broken.add("bill")
    return (await flow.start()).id


async def test_a_flow_that_fails_undoes_its_nodes_in_reverse(trip: Trip) -> None:
    flow = await started(trip, fails=True)
    await trip.drain()
    assert trip.log == ["reserve seat", "reserve room", "release room", "release seat"]
    info = await trip.app.client.flows.get(flow)
    assert info.state == "failed"
    undo = await trip.app.client.flows.get(flow_undo_id(info.id))
    assert undo.state == "succeeded"
    [held] = (await trip.app.client.flows.explain(flow)).held
    assert "its nodes are undone by flow" in held.fact
    with pytest.raises(Refused, match="its nodes are undone: start a new one"):
        await trip.app.client.flows.retry(flow)


async def test_a_flow_that_succeeds_undoes_nothing(trip: Trip) -> None:
    flow = await started(trip, fails=False)
    await trip.drain()
    assert trip.log == ["reserve seat", "reserve room", "reserve note"]
    assert (await trip.app.client.flows.get(flow)).state == "succeeded"
    assert await trip.app.store.flows.errands(10) == []


async def test_a_flow_that_is_cancelled_undoes_what_it_has_done(trip: Trip) -> None:
    @trip.app.task(name="wait")
    async def wait(ctx: Context) -> None:
        await ctx.signal("never")

    flow = trip.app.flow("trip")
    seat = flow.add(trip.reserve, "seat").undo(trip.release)
    flow.add(wait).after(seat)
    run = await flow.start()
    await trip.drain()
    await trip.app.client.flows.cancel(run.id)
    await trip.drain()
    assert trip.log == ["reserve seat", "release seat"]


async def test_a_flow_that_a_handler_runs_undoes_its_nodes_too(trip: Trip) -> None:
    trip.broken.add("bill")

    async def travel(ctx: Context) -> None:
        flow = trip.app.flow("trip")
        seat = flow.add(trip.reserve, "seat").undo(trip.release)
        flow.add(trip.reserve, "bill").after(seat)
        await ctx.run_flow(flow)

    await trip.begin(travel)
    assert trip.log == ["reserve seat", "release seat"]
    assert (await trip.job()).state == "failed"


async def test_an_undo_says_what_it_takes(trip: Trip) -> None:
    @trip.app.task(name="two")
    async def two(first: str, second: str) -> None: ...

    @trip.app.task(name="none")
    async def none() -> None: ...

    flow = trip.app.flow("trip")
    node = flow.add(trip.reserve, "seat")
    for bad in (two, none, len, trip.app.tasks["release"].using(delay=3)):
        with pytest.raises(BadOption):
            node.undo(bad)  # type: ignore[arg-type]
    with pytest.raises(BadFlow, match="cannot be undone one by one"):
        flow.map(trip.reserve, ["a"]).undo(trip.release)
