"""Signals on every store: in coroutines, threads and child processes, and where something dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import all_of
from holdfast.context import Context
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.signal import NewSignal, Sent, SignalLimits
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support import process_handlers as handlers
from tests.support.flaky import FlakyStore, Line
from tests.support.working import Shop


async def on_the_loop(ctx: Context) -> list[int]:
    """As `two_signals`, with coroutines."""
    first = await ctx.signal("paid", int)
    second = await ctx.signal("paid", int, timeout=3_600)
    if ctx.attempt == 1:
        raise ValueError("again")
    return [first, second]


FUNCTIONS: dict[str, tuple[tuple[Callable[..., Any], ...], dict[str, Any]]] = {
    "loop": ((on_the_loop,), {}),
    "thread": ((handlers.two_signals,), {}),
    "process": ((), {"two_signals": handlers.two_signals}),
}


async def send(store: Store, job: JobId, value: int, name: str = "paid") -> Sent:
    [sent] = await store.signals.send(
        [NewSignal(job, name, str(value), f"key {value}")], SignalLimits()
    )
    return sent


@pytest.mark.parametrize("mode", FUNCTIONS)
async def test_a_handler_waits_for_signals_and_later_attempts_get_them_again(
    live_store: Store, mode: str
) -> None:
    plain, processes = FUNCTIONS[mode]
    shop = Shop(live_store, *plain, **processes)
    job_id = await shop.enqueue(next(iter(shop.registry)))
    async with shop.worker(processes=1) as worker:
        await worker.drain()
        job = await shop.get(job_id)
        assert (job.state, job.reason) == ("suspended", "waits for signal 'paid'")
        assert await send(live_store, job_id, 1) is Sent.WOKE
        await worker.drain()
        assert (await shop.get(job_id)).due_at is not None, "the second wait has a timeout"
        assert await send(live_store, job_id, 2) is Sent.WOKE
        await worker.drain()
        await live_store.jobs.promote_due(10)
        await worker.drain()
    job = await shop.get(job_id)
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, [1, 2], 2)
    taken = (await live_store.signals.of([job_id]))[job_id]
    assert [one.taken_by for one in taken] == ["paid", "paid#2"]


async def one_signal(ctx: Context) -> int:
    return await ctx.signal("paid", int)


async def signal_and_step(ctx: Context) -> int:
    """The signal is taken with the record of the step."""
    return await ctx.step("add", add_one, await ctx.signal("paid", int))


def add_one(n: int) -> int:
    return n + 1


async def test_a_signal_in_flight_meets_the_suspension(live_store: Store) -> None:
    """The handler has looked and found nothing; the signal comes before the suspension is
    written."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), one_signal)
    job_id = await shop.enqueue(one_signal)
    sent: list[Sent] = []

    async def meanwhile() -> None:
        sent.append(await send(live_store, job_id, 7))

    line.first["finish"] = meanwhile
    await shop.drain()
    job = await shop.get(job_id)
    assert (sent, job.state, job.result) == ([Sent.KEPT], JobState.SUCCEEDED, 7)


@pytest.mark.parametrize("verb", ["finish", "record", "recall"])
async def test_a_lost_reply_loses_no_signal(live_store: Store, verb: str) -> None:
    """The reply of the suspension, of the taking, of the look. A store may bring with the claim
    what the look would find, but not so much of it."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), signal_and_step)
    job_id = await shop.enqueue(signal_and_step)
    if verb == "finish":
        line.lose.add(verb)
    await shop.drain()
    if verb != "finish":
        line.lose.add(verb)
    notes = [NewSignal(job_id, "note", "0", f"note {n}") for n in range(40)]
    assert set(await live_store.signals.send(notes, SignalLimits())) == {Sent.KEPT}
    assert await send(live_store, job_id, 7) is Sent.WOKE
    await shop.drain()
    assert not line.lose, "it was lost"
    assert (await shop.get(job_id)).result == 8


async def test_a_signal_whose_reply_was_lost_is_sent_again(live_store: Store) -> None:
    line = Line()
    flaky = FlakyStore(live_store, line)
    shop = Shop(live_store, one_signal)
    job_id = await shop.enqueue(one_signal)
    line.lose.add("send")
    with pytest.raises(Exception, match="the answer is lost"):
        await send(flaky, job_id, 7)
    assert await send(flaky, job_id, 7) is Sent.DUPLICATE
    await shop.drain()
    assert (await shop.get(job_id)).result == 7
    assert len((await live_store.signals.of([job_id]))[job_id]) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_consumer_that_dies_beside_the_taking_loses_no_signal(
    live_store: Store, when: str
) -> None:
    """The attempt is taken away right before the record of the signal, or right after it."""
    line = Line()
    flaky = FlakyStore(live_store, line)
    shop = Shop(flaky, signal_and_step)
    job_id = await shop.enqueue(signal_and_step)
    await shop.drain()

    async def die() -> None:
        [live] = await live_store.jobs.live([job_id])
        await live_store.jobs.finish([decide(live, Reclaimed("killed"))])

    assert await send(live_store, job_id, 7) is Sent.WOKE
    line.first["record" if when == "before" else "finish"] = die
    await shop.drain()
    await shop.drain()
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, 8)
    [signal] = (await live_store.signals.of([job_id]))[job_id]
    assert signal.taken_by == "paid"


async def test_a_job_without_signals_sends_nothing_about_them(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError("the store was asked for signals")

    monkeypatch.setattr(live_store.signals, "of", never)
    monkeypatch.setattr(live_store.steps, "recall", never)

    async def steps(ctx: Context) -> int:
        await asyncio.sleep(0)
        return await ctx.step("one", int, 1)

    shop = Shop(live_store, steps)
    job_id = await shop.enqueue(steps)
    await shop.drain()
    assert (await shop.get(job_id)).result == 1


async def all_three(ctx: Context) -> list[Any]:
    got = await ctx.signals(all_of("paid", "packed", "signed"), int)
    return [*got.items()]


@pytest.mark.parametrize("order", ["the last one first", "the suspension first"])
async def test_the_last_of_several_signals_and_the_suspension_do_not_miss_each_other(
    live_store: Store, order: str
) -> None:
    """Two have come, one early. The third comes between the look and the suspension, or after."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), all_three)
    job_id = await shop.enqueue(all_three)
    assert await send(live_store, job_id, 1) is Sent.KEPT
    await shop.drain()
    assert await send(live_store, job_id, 2, "packed") is Sent.WOKE
    sent: list[Sent] = []

    async def last() -> None:
        sent.append(await send(live_store, job_id, 3, "signed"))

    if order == "the last one first":
        line.first["finish"] = last
        await shop.drain()
    else:
        await shop.drain()
        assert (await shop.get(job_id)).state is JobState.SUSPENDED
        await last()
        await shop.drain()
    job = await shop.get(job_id)
    assert sent == [Sent.KEPT if order == "the last one first" else Sent.WOKE]
    assert (job.state, job.result) == ("succeeded", [["paid", 1], ["packed", 2], ["signed", 3]])
    signals = (await live_store.signals.of([job_id]))[job_id]
    assert [one.taken_by for one in signals] == ["paid", "packed", "signed"]


async def test_a_woken_job_is_asked_for_its_steps_and_signals_at_once(live_store: Store) -> None:
    """What stands between a signal and its handler: the claim, and at most one look. A store may
    bring with the claim what the look would find."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), one_signal)
    job_id = await shop.enqueue(one_signal)
    await shop.drain()
    await send(live_store, job_id, 7)
    line.calls.clear()
    await shop.drain()
    assert (await shop.get(job_id)).result == 7
    looks = [] if live_store.kind == "valkey" else ["recall"]
    assert [verb for verb in line.calls if verb in ("recall", "load", "of")] == looks
    [signal] = (await live_store.signals.of([job_id]))[job_id]
    assert signal.taken_by == "paid", "with the end of the job"
