"""Waits for several signals: any of them, all of them, so many of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from holdfast import App, Context, all_of, any_of, quorum
from holdfast.errors import BadFlow, BadOption, WaitTimedOut
from holdfast.job.signal import Sent
from holdfast.testing import killed_after_every_commit
from tests.support.waiting_job import Bench


class Payment(msgspec.Struct):
    sum: int


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    async with bench.harness:
        yield bench


async def kept(bench: Bench) -> list[str]:
    signals = await bench.app.client.signals.of(bench.handle.id)
    return [one.name for one in signals if one.taken_by is None]


async def test_any_of_goes_on_with_the_first_that_comes(bench: Bench) -> None:
    async def order(ctx: Context) -> dict[str, Any]:
        return await ctx.signals(any_of("paid", "cancelled"))

    handle = await bench.begin(order)
    said = "waits for any of the signals 'paid', 'cancelled'"
    assert ((await bench.job()).state, (await bench.job()).reason) == ("suspended", said)
    assert await handle.signal("cancelled", "by ann") is Sent.WOKE
    assert await handle.signal("paid", 9) is Sent.KEPT
    await bench.drain()
    assert await handle.result(5) == {"cancelled": "by ann"}
    assert await kept(bench) == ["paid"], "what is not needed is not taken"


async def test_all_of_takes_nothing_before_all_have_come(bench: Bench) -> None:
    async def order(ctx: Context) -> list[Any]:
        return [*(await ctx.signals(all_of("a", "b", "c"))).items()]

    handle = await bench.begin(order)
    for n, name in enumerate("ca"):
        assert await handle.signal(name, n) is Sent.WOKE
        await bench.drain()
    assert (await kept(bench), (await bench.job()).state) == (["c", "a"], "suspended")
    assert await handle.signal("a", 7) is Sent.KEPT, "one of them is enough"
    assert await handle.signal("b", 2) is Sent.WOKE
    await bench.drain()
    assert await handle.result(5) == [["c", 0], ["a", 1], ["b", 2]], "as they came"
    assert (await bench.job()).attempts == 1


async def test_a_quorum_goes_on_with_as_many_as_it_needs(bench: Bench) -> None:
    async def order(ctx: Context) -> dict[str, int]:
        return await ctx.signals(quorum(2, "a", "b", "c"), int)

    handle = await bench.app.task()(order).enqueue()
    for name in "cba":
        await handle.signal(name, 1)
    await bench.drain()
    bench.handle = handle
    assert await handle.result(5) == {"c": 1, "b": 1}, "the first two, also if they came early"
    assert await kept(bench) == ["a"]


async def test_each_signal_may_have_a_type_of_its_own(bench: Bench) -> None:
    async def order(ctx: Context) -> list[Any]:
        got = await ctx.signals(all_of("paid", "note"), {"paid": Payment, "note": str})
        return [got["paid"].sum, got["note"]]

    handle = await bench.begin(order)
    await handle.signal("paid", Payment(3))
    await handle.signal("note", "thanks")
    await bench.drain()
    assert await handle.result(5) == [3, "thanks"]


async def test_later_attempts_get_the_same_signals_in_the_same_order(bench: Bench) -> None:
    async def order(ctx: Context) -> list[str]:
        got = await ctx.signals(quorum(2, "a", "b", "c"))
        if ctx.attempt < 3:
            raise ValueError("again")
        return list(got)

    handle = await bench.begin(order)
    for name in "cab":
        await handle.signal(name)
    for _ in range(3):
        await bench.pass_time(hours=1)
    assert await handle.result(5) == ["c", "a"]


async def test_when_the_time_is_over_what_has_come_is_kept(bench: Bench) -> None:
    async def order(ctx: Context) -> list[Any]:
        try:
            await ctx.signals(all_of("a", "b"), timeout=3_600)
        except WaitTimedOut as error:
            return [str(error), await ctx.signal("a", timeout=0)]
        return []

    handle = await bench.begin(order)
    await handle.signal("a", 1)
    await bench.pass_time(minutes=59)
    assert (await bench.job()).state == "suspended", "a wake begins no new hour"
    await bench.pass_time(minutes=1)
    said = "all of the signals 'a', 'b' did not come within 3600 s"
    assert await handle.result(5) == [said, 1]


async def test_a_timeout_that_was_told_stays_so(bench: Bench) -> None:
    async def order(ctx: Context) -> str:
        try:
            await ctx.signals(any_of("a", "b"), timeout=60)
        except WaitTimedOut:
            if ctx.attempt == 1:
                raise
            return "late"
        return "in time"

    handle = await bench.begin(order)
    await bench.pass_time(minutes=2)
    await handle.signal("b")
    await bench.pass_time(minutes=2)
    assert await handle.result(5) == "late"


async def test_a_deploy_may_ask_for_more(bench: Bench) -> None:
    need = [1]

    async def order(ctx: Context) -> dict[str, int]:
        got = await ctx.signals(quorum(need[0], "a", "b"), int)
        if ctx.attempt == 1:
            raise ValueError("again")
        return got

    handle = await bench.begin(order)
    await handle.signal("b", 1)
    await bench.drain()
    need[0] = 2
    await bench.pass_time(hours=1)
    assert (await bench.job()).reason == "waits for all of the signals 'a', 'b'"
    await handle.signal("a", 2)
    await bench.drain()
    assert await handle.result(5) == {"b": 1, "a": 2}


async def test_two_waits_of_one_handler_take_a_signal_each(bench: Bench) -> None:
    async def order(ctx: Context) -> list[Any]:
        both = ctx.signals(all_of("a", "b"), int), ctx.signal("a", int)
        return list(await asyncio.gather(*both))

    handle = await bench.begin(order)
    for n, name in enumerate("aba"):
        await handle.signal(name, n)
        await bench.drain()
    assert await handle.result(5) == [{"b": 1, "a": 2}, 0]


async def test_plain_functions_wait_for_several_too(bench: Bench) -> None:
    def order(ctx: Context) -> dict[str, int]:
        return ctx.signals_sync(all_of("a", "b"), int, timeout=60)

    handle = await bench.begin(order)
    await handle.signal("a", 1)
    await bench.drain()
    await handle.signal("b", 2)
    await bench.drain()
    assert await handle.result(5) == {"a": 1, "b": 2}


async def test_explain_says_how_many_of_which(bench: Bench) -> None:
    async def order(ctx: Context) -> None:
        await ctx.signals(quorum(2, "a", "b", "c"), timeout=86_400)

    handle = await bench.begin(order)
    await bench.pass_time(hours=2)
    await handle.signal("b")
    await bench.drain()
    said = (
        "it waits for 2 of the signals 'a', 'b', 'c' since 0.0 s (1 other signal kept: 'b'); 22 h"
    )
    assert await bench.explained() == [f"{said} left, then the wait has timed out"]
    waits, _ = await bench.app.client.signals.waits()
    assert [one.signal for one in waits] == ["a", "c"], "only what is missing"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: any_of("a", "a"), "a condition must be each signal once"),
        (lambda: quorum(3, "a", "b"), "quorum must be between 1 and 2"),
        (lambda: quorum(0, "a", "b"), "quorum must be a whole number, at least 1"),
        (lambda: all_of("a", ""), "the name of a signal must be"),
        (lambda: any_of(*map(str, range(501))), "at most 500 signals; wait for one signal whose"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        make()


def test_a_condition_on_neither_nodes_nor_names_says_what_it_takes() -> None:
    for given in ([], [["a", "b"]], ["a", 3]):
        with pytest.raises(BadFlow, match="of a wait for signals it takes their names"):
            any_of(*given)


async def test_what_is_no_condition_is_refused(bench: Bench) -> None:
    async def order(ctx: Context) -> str:
        with pytest.raises(BadOption, match="signals must be a condition"):
            await ctx.signals("paid")  # type: ignore[call-overload]
        with pytest.raises(BadOption, match="one for signal 'b'"):
            await ctx.signals(any_of("a", "b"), {"a": int})
        return "refused"

    assert await (await bench.begin(order)).result(5) == "refused"


async def test_killed_after_every_commit_all_are_taken_or_none() -> None:
    app = App("sqlite://")

    @app.task()
    async def order(ctx: Context) -> list[Any]:
        await ctx.step("tell", tell, ctx.job.id)
        got = await ctx.signals(all_of("a", "b"), int)
        await ctx.step("both", sum, got.values())
        return [got, await ctx.step("last", int, await ctx.signal("a", int))]

    async def tell(job_id: str) -> None:
        for n, name in enumerate("aba"):
            await app.client.signals.send(job_id, name, n, key=str(n))

    found = await killed_after_every_commit(order)
    assert (found.result, found.kills) == ([{"a": 0, "b": 1}, 2], 3)
