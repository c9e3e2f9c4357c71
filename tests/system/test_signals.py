"""Signals as a handler waits for them: each is taken once, and later attempts get it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast import App, Context
from holdfast.background.options import ReconcileOptions
from holdfast.errors import (
    BadOption,
    BadSignal,
    HoldfastError,
    PayloadTooLarge,
    Refused,
    SignalsFull,
    UnknownJob,
    WaitTimedOut,
)
from holdfast.job.ids import new_job_id
from holdfast.job.signal import Sent, SignalLimits
from holdfast.job.what import What
from holdfast.reconcile.signal_drift import SignalDriftReconciler
from holdfast.testing import killed_after_every_commit
from tests.support.waiting_job import Bench


class Payment(msgspec.Struct):
    sum: int


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    async with bench.harness:
        yield bench


async def test_a_handler_waits_for_a_signal_without_a_slot(bench: Bench) -> None:
    async def ship(ctx: Context) -> int:
        paid = await ctx.signal("paid", Payment)
        return paid.sum

    handle = await bench.begin(ship)
    job = await bench.job()
    assert (job.state, job.reason, job.attempts) == ("suspended", "waits for signal 'paid'", 0)
    assert await handle.signal("paid", Payment(9)) is Sent.WOKE
    await bench.drain()
    assert (await bench.job()).attempts == 1, "the same attempt went on"
    assert await handle.result(5) == 9


async def test_a_signal_that_came_early_is_taken_at_once(bench: Bench) -> None:
    async def ship(ctx: Context) -> int:
        return (await ctx.signal("paid", Payment)).sum

    handle = await bench.app.task()(ship).enqueue()
    assert await handle.signal("paid", {"sum": 7}, key="evt_1") is Sent.KEPT
    assert await handle.signal("paid", {"sum": 8}, key="evt_1") is Sent.DUPLICATE
    await bench.drain()
    assert await handle.result(5) == 7


async def test_later_attempts_get_the_same_signal(bench: Bench) -> None:
    async def ship(ctx: Context) -> list[int]:
        first = await ctx.signal("paid", int)
        if ctx.attempt < 3:
            raise ValueError("again")
        return [first, await ctx.signal("paid", int)]

    handle = await bench.begin(ship)
    await handle.signal("paid", 1)
    await handle.signal("paid", 2)
    for _ in range(3):
        await bench.drain()
        await bench.harness.advance(hours=1)
    assert await handle.result(5) == [1, 2]
    taken = {one.n: one.taken_by for one in await bench.app.client.signals.of(handle.id)}
    assert taken == {1: "paid", 2: "paid#2"}


async def test_signals_of_one_name_are_taken_in_their_order(bench: Bench) -> None:
    async def collect(ctx: Context) -> list[int]:
        return [await ctx.signal("part", int) for _ in range(3)]

    handle = await bench.begin(collect)
    for n in range(3):
        await handle.signal("part", n)
        await bench.drain()
    assert await handle.result(5) == [0, 1, 2]


async def test_signals_are_awaited_at_once_by_gather(bench: Bench) -> None:
    async def both(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(ctx.signal("a"), ctx.signal("b"), ctx.signal("a")))

    handle = await bench.begin(both)
    waits, _ = await bench.app.client.signals.waits()
    assert [one.signal for one in waits] == ["a", "b"]
    for name, value in (("a", 1), ("b", 2), ("a", 3)):
        assert await handle.signal(name, value) is Sent.WOKE
        await bench.drain()
    assert await handle.result(5) == [1, 2, 3]


async def test_a_wait_times_out_by_the_clock_of_the_store(bench: Bench) -> None:
    async def ship(ctx: Context) -> str:
        try:
            await ctx.signal("paid", timeout=timedelta(days=2))
        except WaitTimedOut as error:
            return str(error)
        return "paid"

    handle = await bench.begin(ship)
    await bench.harness.advance(hours=47)
    await bench.drain()
    assert (await bench.job()).state == "suspended"
    await bench.harness.advance(hours=1)
    await bench.drain()
    assert await handle.result(5) == "signal 'paid' did not come within 172800 s"


async def test_a_timeout_that_was_told_stays_so(bench: Bench) -> None:
    """A signal that comes later changes nothing that the handler has decided."""
    told: list[str] = []

    async def ship(ctx: Context) -> str:
        try:
            return await ctx.signal("paid", str, timeout=60)
        except WaitTimedOut:
            told.append("late")
            if ctx.attempt == 1:
                raise ValueError("again") from None
            return "late"

    handle = await bench.begin(ship)
    await bench.harness.advance(minutes=2)
    await bench.drain()
    assert await handle.signal("paid", "now") is Sent.KEPT
    await bench.harness.advance(minutes=2)
    await bench.drain()
    assert (await handle.result(5), told) == ("late", ["late", "late"])


async def test_a_signal_that_came_before_the_look_beats_the_timeout(bench: Bench) -> None:
    async def ship(ctx: Context) -> str:
        return await ctx.signal("paid", str, timeout=60)

    handle = await bench.begin(ship)
    await bench.harness.advance(minutes=2)  # the job is ready, and nobody has looked yet
    assert await handle.signal("paid", "just so") is Sent.KEPT
    await bench.drain()
    assert await handle.result(5) == "just so"


async def test_the_timeout_goes_on_while_other_signals_come(bench: Bench) -> None:
    async def ship(ctx: Context) -> str:
        try:
            await asyncio.gather(ctx.signal("note"), ctx.signal("paid", timeout=3_600))
        except WaitTimedOut:
            return "late"
        return "paid"

    handle = await bench.begin(ship)
    await bench.harness.advance(minutes=50)
    await handle.signal("note")
    await bench.drain()
    await bench.harness.advance(minutes=11)
    await bench.drain()
    assert await handle.result(5) == "late"


async def test_a_short_wait_keeps_the_slot(bench: Bench) -> None:
    async def ship(ctx: Context) -> str:
        try:
            return await ctx.signal("paid", str, timeout=0.05)
        except WaitTimedOut:
            return "late"

    handle = await bench.begin(ship)
    assert await handle.result(5) == "late"
    assert [one.what for one in (await handle.life()).moments].count(What.SUSPENDED) == 0


async def test_a_wait_of_no_time_looks_once(bench: Bench) -> None:
    async def ship(ctx: Context) -> list[Any]:
        found: list[Any] = []
        for _ in range(2):
            try:
                found.append(await ctx.signal("note", timeout=0))
            except WaitTimedOut:
                found.append(None)
        return found

    handle = await bench.app.task()(ship).enqueue()
    await handle.signal("note", "a")
    await bench.drain()
    assert await handle.result(5) == ["a", None]


async def test_a_deadline_counts_while_a_job_waits(bench: Bench) -> None:
    async def ship(ctx: Context) -> str:
        return await ctx.signal("paid", str)

    await bench.begin(ship, deadline=3_600)
    await bench.harness.advance(hours=2)
    assert (await bench.job()).state == "expired"
    with pytest.raises(Refused, match="is expired: only a live job"):
        await bench.handle.signal("paid", "x")


async def test_a_value_that_does_not_fit_is_told_and_the_next_may_come(bench: Bench) -> None:
    told: list[str] = []

    async def ship(ctx: Context) -> int:
        try:
            return (await ctx.signal("paid", Payment)).sum
        except BadSignal as error:
            told.append(str(error))
            return (await ctx.signal("paid", Payment)).sum

    handle = await bench.begin(ship)
    await handle.signal("paid", {"sum": "nine"})
    await bench.drain()
    await handle.signal("paid", {"sum": 9})
    await bench.drain()
    assert await handle.result(5) == 9
    assert "its value does not fit the type waited for: expected int, got str" in told[0]


async def test_a_step_may_not_wait_for_a_signal(bench: Bench) -> None:
    async def ship(ctx: Context) -> None:
        async def waits() -> None:
            await ctx.signal("paid")

        await ctx.step("pay", waits)

    await bench.begin(ship)
    [error, *_] = (await bench.job()).errors
    assert "wait between steps" in error.message


async def test_a_handler_that_swallows_its_leaving_has_failed(bench: Bench) -> None:
    async def ship(ctx: Context) -> str:
        try:
            await ctx.signal("paid")
        except BaseException:  # noqa: BLE001 - what it must not do
            return "never mind"
        return "paid"

    await bench.begin(ship)
    job = await bench.job()
    assert (job.state, job.errors[0].kind) == ("failed", "SuspendingSwallowed")


async def test_plain_functions_wait_too(bench: Bench) -> None:
    def ship(ctx: Context) -> int:
        return ctx.signal_sync("paid", Payment, timeout=60).sum

    handle = await bench.begin(ship)
    assert (await bench.job()).state == "suspended"
    await handle.signal("paid", Payment(3))
    await bench.drain()
    assert await handle.result(5) == 3


async def test_a_requeued_job_waits_anew(bench: Bench) -> None:
    async def ship(ctx: Context) -> str:
        paid = await ctx.signal("paid", str)
        raise ValueError(paid) if paid == "bad" else KeyError

    handle = await bench.begin(ship)
    await bench.app.client.cancel(handle.id)
    await bench.app.client.requeue(handle.id)
    await bench.drain()
    assert (await bench.job()).state == "suspended"
    assert await bench.app.client.signals.of(handle.id) == []


async def test_killed_after_every_commit_a_handler_takes_each_signal_once(bench: Bench) -> None:
    """The consumer dies right after the signal was taken: the value is recorded with it."""
    app = App("sqlite://")

    @app.task()
    async def ship(ctx: Context) -> list[int]:
        await ctx.step("tell", tell, ctx.job.id)
        first = await ctx.step("first", int, await ctx.signal("paid", int))
        return [first, await ctx.step("second", int, await ctx.signal("paid", int))]

    async def tell(job_id: str) -> None:
        for n in (1, 2):
            await app.client.signals.send(job_id, "paid", n, key=str(n))

    found = await killed_after_every_commit(ship)
    assert (found.result, found.kills) == ([1, 2], 3)


# Sending --------------------------------------------------------------------------------------


async def waits(ctx: Context) -> Any:
    return await ctx.signal("paid")


@pytest.mark.parametrize(
    ("name", "value", "options", "said"),
    [
        ("", 1, {}, "the name of a signal must be"),
        ("x" * 201, 1, {}, "the name of a signal must be"),
        ("paid", 1, {"key": ""}, "key must be"),
        ("paid", object(), {}, "the value of signal 'paid' must be JSON"),
        ("paid", float("nan"), {}, "JSON has no NaN"),
    ],
)
async def test_bad_input_is_refused_with_what_to_do(
    bench: Bench, name: str, value: object, options: dict[str, Any], said: str
) -> None:
    handle = await bench.begin(waits)
    with pytest.raises(BadOption, match=said):
        await handle.signal(name, value, **options)


async def test_a_value_over_max_payload_is_refused(bench: Bench) -> None:
    handle = await bench.begin(waits)
    with pytest.raises(PayloadTooLarge, match="signal 'paid': its value"):
        await handle.signal("paid", "x" * 3_000)


async def test_nobody_sends_to_a_job_that_is_unknown(bench: Bench) -> None:
    with pytest.raises(UnknownJob):
        await bench.app.client.signals.send(new_job_id(), "paid")
    with pytest.raises(UnknownJob):
        await bench.app.client.signals.of(new_job_id())


async def test_a_job_with_too_many_signals_takes_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.signals.LIMITS", SignalLimits(number=1))
    handle = await bench.begin(waits)
    await handle.signal("a")
    with pytest.raises(SignalsFull, match="can take no more signals: it may be sent 1,"):
        await handle.signal("b")


async def test_the_audit_keeps_who_sent_which_signal_and_not_its_value(bench: Bench) -> None:
    handle = await bench.begin(waits)
    client = bench.app.client
    await client.signals.send(handle.id, "paid", {"card": "4111"}, key="evt", by="ann")
    [entry] = (await client.audit.page()).entries
    assert (entry.by, entry.verb, entry.target) == ("ann", "jobs.signal", handle.id)
    assert entry.arguments == '{"name":"paid"}'
    moments = (await handle.life()).moments
    assert ("resumed", "ann") in [(one.what, one.by) for one in moments]


# Explaining -----------------------------------------------------------------------------------


async def test_explain_says_which_signal_a_job_waits_for(bench: Bench) -> None:
    async def ship(ctx: Context) -> Any:
        return await ctx.signal("paid", timeout=86_400)

    handle = await bench.begin(ship)
    await handle.signal("note", "hello")
    await bench.harness.advance(hours=2)
    said = "it waits for signal 'paid' since 2 h (1 other signal kept: 'note'); 22 h left, then"
    assert await bench.explained() == [f"{said} the wait has timed out"]
    [reason] = (await bench.app.client.explain(handle.id)).reasons
    assert reason.action is not None
    assert (reason.action.verb, reason.action.value) == ("signal", "paid")


async def test_the_net_finds_nothing_unless_it_was_planted(bench: Bench) -> None:
    handle = await bench.begin(waits)
    app, found = bench.app, list[str]()
    app.events.subscribe(lambda event: found.append(event.name))
    net = SignalDriftReconciler(app.store, app.events, ReconcileOptions())
    await handle.signal("note")
    assert (await net.run_once()).found == 0
    await plant(bench, "update holdfast_signal set name = 'paid'")
    swept = await net.run_once()
    assert (swept.found, swept.mended) == (1, 1)
    assert "job.signal_overlooked" in found
    await bench.drain()
    assert await handle.result(5) is None


async def test_the_net_ends_a_wait_whose_timer_was_lost(bench: Bench) -> None:
    """A timer ends a wait; that it is lost has to be planted."""

    async def patient(ctx: Context) -> str:
        try:
            return str(await ctx.signal("paid", timeout=60))
        except WaitTimedOut:
            return "gave up"

    handle = await bench.begin(patient)
    app, found = bench.app, list[str]()
    app.events.subscribe(lambda event: found.append(event.name))
    net = SignalDriftReconciler(app.store, app.events, ReconcileOptions())
    bench.harness.clock.advance(70)
    assert (await net.run_once()).found == 0, "overdue, but its timer is there"
    await plant(bench, "update holdfast_suspended set wake_at = null")
    swept = await net.run_once()
    assert (swept.found, swept.mended, found.count("job.wait_overdue")) == (1, 1, 1)
    assert (await net.run_once()).found == 0
    await bench.drain()
    assert await handle.result(5) == "gave up"


async def test_the_net_looks_at_some_waits_and_goes_on_behind_them(bench: Bench) -> None:
    """Many waits cost an idle worker no more than a few do."""
    for n in range(5):
        await bench.begin(waits, name=f"waits-{n}")
    await bench.handle.signal("note")
    await plant(bench, "update holdfast_signal set name = 'paid'")
    app = bench.app
    net = SignalDriftReconciler(app.store, app.events, ReconcileOptions(batch=2))
    assert [(await net.run_once()).found for _ in range(4)] == [0, 0, 1, 0]


async def plant(bench: Bench, statement: str) -> None:
    writer = bench.app.store.signals._writer  # type: ignore[attr-defined]
    await writer.write(lambda tx: tx.run(statement))


async def test_handlers_outside_of_a_worker_are_told_that_nobody_sends(bench: Bench) -> None:
    task = bench.app.task()(waits)
    with pytest.raises(WaitTimedOut):
        await bench.harness.run(task)
    assert issubclass(WaitTimedOut, HoldfastError)
