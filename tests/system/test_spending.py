"""Rates and budgets as programs declare them, handlers use them and people see them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, BadOption, Budget, Concurrency, Context, Fail, Rate, Task, Throttled
from holdfast.errors import JobCancelled, RowRefused
from holdfast.events import Event
from holdfast.insights.diagnosis import WARNING
from holdfast.insights.limits import check_limits
from holdfast.job.state import JobState
from holdfast.store.contract.limits import Take
from holdfast.testing import Harness
from tests.conformance.builders import Scene
from tests.conformance.limiting import define
from tests.support.spending_handlers import spend_plainly
from tests.support.waiting import wait_until
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


def gateway(hard: int = 100, **settings: Any) -> tuple[App, Task[..., Any]]:
    """A task whose jobs reserve what their argument `most` says, for their tenant."""
    app = App("sqlite://")
    tokens = app.limit("tokens", Budget(hard, **settings))

    @app.task(name="ask", retry=1, limits=[tokens.by("who", cost="most")])
    async def ask(ctx: Context, who: str, most: int, used: int | None = None) -> None:
        if used is not None:
            await ctx.spent(tokens, used)
        if who == "broken":
            raise Fail("no answer")

    return app, ask


async def spent(app: App, who: str) -> tuple[int, int]:
    bucket = await app.client.limits.get("tokens", who)
    return bucket.spent, bucket.in_use


# What handlers say ----------------------------------------------------------------------------


@pytest.mark.parametrize("units", [-1, True, 1.5, float("nan"), 10**15 + 1, "7", None])
async def test_a_bad_number_is_named_in_the_handler_and_loses_nothing(units: Any) -> None:
    app = App("sqlite://")
    tokens = app.limit("tokens", Budget(100))
    calls = app.limit("calls", Rate(5, per=60))
    said: list[str] = []

    @app.task(limits=[tokens])
    async def ask(ctx: Context) -> None:
        await ctx.spent(tokens, 30)
        for call in (ctx.spent(tokens, units), ctx.take(calls, units)):
            with pytest.raises(BadOption) as refused:
                await call
            said.append(str(refused.value))
        await ctx.spent(tokens, 3)

    async with Harness(app) as harness:
        job = await ask.enqueue()
        await harness.drain()
        assert (await app.client.get(job.id)).state is JobState.SUCCEEDED
        assert (await app.client.limits.get(tokens)).spent == 33
        assert (await app.client.limits.get(calls)).spent == 0
    assert f"spent(units) must be a whole number, from 0 to {10**15}, got {units!r}" in said[0]
    assert f"take(units) must be a whole number, from 1 to {10**15}, got {units!r}" in said[1]


async def test_a_worker_that_comes_while_a_rate_is_empty_does_not_wait_for_its_poll(
    shared_url: str,
) -> None:
    app = App(shared_url)
    calls = app.limit("calls", Rate(1, per=0.5))
    ran = asyncio.Event()

    @app.task(queue="calls", limits=[calls])
    async def call() -> None:
        ran.set()

    async with app:
        await app.store.limits.declare({"calls": calls.settings})
        assert (await app.store.limits.take([Take("calls:")]))[0].granted
        await call.enqueue()
        async with app.worker({"calls": 1, "other": 1}, poll=600):
            async with asyncio.timeout(60):
                await ran.wait()


async def test_no_attempt_spends_more_than_can_be_counted() -> None:
    app = App("sqlite://")
    tokens = app.limit("tokens", Budget(100))

    @app.task(limits=[tokens])
    async def ask(ctx: Context) -> None:
        for _ in range(9):
            await ctx.spent(tokens, 10**15)
        with pytest.raises(RowRefused, match="what an attempt has spent in all"):
            await ctx.spent(tokens, 10**15)

    async with Harness(app) as harness:
        job = await ask.enqueue()
        await harness.drain()
        assert (await app.client.get(job.id)).state is JobState.SUCCEEDED
        assert (await app.client.limits.get(tokens)).spent == 9 * 10**15


async def spend_on_the_loop(ctx: Context, who: str, estimate: int, used: int) -> str:
    await ctx.take("calls", 1)
    await asyncio.gather(ctx.spent("tokens", used - 1), ctx.spent("tokens", 1))
    return who


@pytest.mark.parametrize("mode", ["loop", "thread", "process"])
async def test_a_handler_takes_and_spends_wherever_it_runs(mode: str, shared_url: str) -> None:
    functions: dict[str, Callable[..., Any]] = {"loop": spend_on_the_loop}
    app = App(shared_url)
    tokens = app.limit("tokens", Budget(1_000))
    app.limit("calls", Rate(10, per=60))
    task = app.task(
        name="spend", process=mode == "process", limits=[tokens.by("who", cost="estimate")]
    )(functions.get(mode, spend_plainly))
    async with app, app.worker(processes=1) as worker:
        job = await task.enqueue("acme", 100, 7)
        await worker.drain()
        assert await job.result() == "acme"
        assert await spent(app, "acme") == (7, 0)
        assert (await app.client.limits.get("calls")).spent == 1


async def test_a_budget_is_settled_with_what_was_reported_or_else_reserved() -> None:
    app, ask = gateway()
    async with Harness(app) as harness:
        await ask.enqueue("acme", 30)
        await ask.enqueue("acme", 30, 4)
        await ask.enqueue("broken", 50, 6)
        await ask.enqueue("broken", 50)
        await harness.drain(raises=False)
        assert await spent(app, "acme") == (34, 0)
        assert await spent(app, "broken") == (6, 0), "the rest is refunded"


async def test_a_call_says_its_own_cost() -> None:
    app, ask = gateway()
    async with Harness(app) as harness:
        await ask.using(cost={"tokens": 90}).enqueue("acme", 10)
        await harness.drain()
        assert await spent(app, "acme") == (90, 0)
        with pytest.raises(BadOption, match="limits that the task passes: tokens, got 'other'"):
            ask.using(cost={"other": 1})
        with pytest.raises(BadOption, match="at most 100: the limit never lets more pass"):
            await ask.enqueue("acme", 101)
        with pytest.raises(BadOption, match="known when the job is enqueued"):
            await ask.using(cost={"tokens": 0}).enqueue("acme", 1)


def test_a_cost_that_is_no_argument_is_refused_when_it_is_declared() -> None:
    app = App("sqlite://")
    tokens = app.limit("tokens", Budget(10))
    with pytest.raises(BadOption, match="key or cost of limit 'tokens'"):

        @app.task(limits=[tokens.by("who", cost="most")])
        async def ask(who: str) -> None: ...


async def test_what_a_job_does_not_pass_cannot_be_spent() -> None:
    app = App("sqlite://")
    app.limit("tokens", Budget(10))
    heard: list[str] = []

    @app.task
    async def ask(ctx: Context) -> None:
        for wrong in (ctx.spent("tokens", 1), ctx.take("none"), ctx.take("slots")):
            try:
                await wrong
            except RowRefused as error:
                heard.append(str(error))

    app.limit("slots", Concurrency(3))
    async with Harness(app) as harness:
        await ask.enqueue()
        await harness.drain()
    assert "a budget that the job passes" in heard[0]
    assert "not defined" in heard[1]
    assert len(heard) == 3


@pytest.mark.parametrize("key", ["\ud800", "a\nb", "\x00", "k" * 201, 7])
async def test_a_key_that_no_store_can_hold_fails_its_own_take_alone(key: str) -> None:
    """Takes travel to the store in batches."""
    app, heard = App("sqlite://"), list[str]()
    tokens = app.limit("tokens", Budget(10))

    @app.task
    async def ask(ctx: Context, is_wrong: bool) -> None:
        try:
            await ctx.take(tokens, key=key if is_wrong else None)
            heard.append("granted")
        except BadOption as error:
            heard.append(str(error))

    async with Harness(app) as harness:
        await ask.enqueue_many([(False,), (True,), (False,)])
        await harness.drain()
        assert (await app.client.limits.get(tokens)).spent == 2
    refused, *others = sorted(heard, key="granted".__eq__)
    assert "must be " in refused
    assert others == ["granted"] * 2


async def test_a_handler_waits_until_a_rate_lets_it_pass() -> None:
    app = App("sqlite://")
    calls = app.limit("calls", Rate(10, per=1, burst=1))
    took: list[float] = []

    @app.task
    async def crawl(ctx: Context, pages: int) -> None:
        for _ in range(pages):
            await ctx.take(calls, key="example.org")
            took.append(time.monotonic())

    async with app, app.worker() as worker:
        await crawl.enqueue_many([(3,), (3,)])
        await worker.drain()
    assert len(took) == 6
    assert took[-1] - took[0] >= 0.45, "ten a second, one after the other"


async def test_a_handler_that_waits_for_a_limit_can_be_cancelled() -> None:
    app = App("sqlite://")
    calls = app.limit("calls", Rate(1, per=3600))
    began: list[str] = []

    @app.task
    async def on_the_loop(ctx: Context) -> None:
        began.append("loop")
        await ctx.take(calls, 1)

    @app.task
    def in_a_thread(ctx: Context) -> None:
        began.append("thread")
        ctx.take_sync(calls, 1)

    async with app, app.worker():
        await app.store.limits.take([_one("calls:")])
        jobs = [await on_the_loop.enqueue(), await in_a_thread.enqueue()]
        await wait_until(lambda: len(began) == 2, 10, "both wait")
        for job in jobs:
            await job.cancel()
        for job in jobs:
            with pytest.raises(JobCancelled):
                await job.result(timeout=10)


def _one(bucket: str) -> Any:
    from holdfast.store.contract.limits import Take

    return Take(bucket)


async def test_a_harness_tells_what_a_handler_said_it_spent() -> None:
    app, ask = gateway()
    async with Harness(app) as harness:
        ran = await harness.run(ask, "acme", 10, 3)
        assert ran.spent == {"tokens": 3}


# Waiting ------------------------------------------------------------------------------------


async def test_a_drain_does_not_wait_for_time_or_an_operator() -> None:
    app = App("sqlite://")
    rate, budget = app.limit("rate", Rate(2, per=3600)), app.limit("tokens", Budget(2))

    @app.task
    async def work() -> None: ...

    async with app, app.worker() as worker:
        for limit in (rate, budget):
            await work.using(limits=[limit]).enqueue_many([()] * 5)
        async with asyncio.timeout(60):
            await worker.drain()
        assert await app.client.count() == {JobState.SUCCEEDED: 4, JobState.READY: 6}
        await app.client.limits.top_up("tokens", 1)
        await app.client.limits.reset("rate")
        await worker.drain()
        assert await app.client.count() == {JobState.SUCCEEDED: 7, JobState.READY: 3}


async def test_a_job_that_has_not_begun_gives_back_its_rate() -> None:
    app = App("sqlite://")
    rate = app.limit("rate", Rate(5, per=3600))
    opened, began = threading.Event(), list[int]()

    @app.task(limits=[rate])
    def hold() -> None:
        began.append(1)
        opened.wait(20)

    async with app:
        await hold.enqueue_many([()] * 3)
        async with app.worker({"default": 3}, threads=1, grace=0.2, patience=0.1) as worker:
            await wait_until(lambda: bool(began), 10, "one has the thread")
            worker.request_stop()
            await worker.stop()
            opened.set()
        assert (await app.client.limits.get(rate)).spent == 1, "one had a thread"


async def test_a_throttle_shuts_a_rate_for_everybody() -> None:
    app = App("sqlite://")
    service = app.limit("service", Rate(100, per=60))
    refusals = iter([429])
    ran: list[int] = []

    @app.task(limits=[service])
    async def call(n: int) -> None:
        if next(refusals, 200) == 429:
            raise Throttled(30, limit=service)
        ran.append(n)

    async with Harness(app) as harness:
        await call.enqueue(1)
        await harness.drain()
        job = await call.enqueue(2)
        await harness.drain()
        assert ran == []
        [reason, *_] = (await app.client.explain(job.id)).reasons
        assert reason.code == "limit-drained"
        await harness.advance(seconds=31)
        await harness.drain()
        assert sorted(ran) == [1, 2]


# What people see ------------------------------------------------------------------------------


async def told(app: App, task: Task[..., Any], *args: object) -> tuple[str, str, str]:
    job = await task.enqueue(*args)
    [reason, *_] = (await app.client.explain(job.id)).reasons
    return reason.code, reason.fact, reason.who


async def test_explain_says_what_a_job_waits_for() -> None:
    app, ask = gateway(every="day")
    rate = app.limit("rate", Rate(1, per=10))

    @app.task(limits=[rate])
    async def call() -> None: ...

    async with Harness(app) as harness:
        await ask.enqueue("acme", 100)
        await call.enqueue()
        await harness.drain()
        code, fact, who = await told(app, ask, "acme", 7)
        assert (code, who) == ("budget-spent", "time")
        assert "100 of 100 spent or reserved; it needs 7; it begins anew in" in fact
        code, fact, who = await told(app, call)
        assert (code, who) == ("rate-empty", "time")
        assert "lets 1 begin per 10 s, and none is left; opens in 10." in fact
        await app.client.limits.set("tokens", key="bits", hard=5)
        code, fact, who = await told(app, ask, "bits", 50)
        assert (code, who) == ("cost-too-big", "an operator")
        assert "it costs 50 of limit 'tokens' for 'bits', which never lets more than 5" in fact


async def test_a_parent_of_a_path_is_named_only_if_it_has_an_amount_of_its_own() -> None:
    app = App("sqlite://")
    tokens = app.limit("tokens", Budget(100))

    @app.task(limits=[tokens.by("{org}/{team}", cost="most")])
    async def ask(org: str, team: str, most: int) -> None: ...

    async with Harness(app) as harness:
        await ask.enqueue("acme", "ml", 100)
        await ask.enqueue("acme", "web", 100)
        await harness.drain()
        assert await spent(app, "acme") == (200, 0)
        await app.client.limits.set(tokens, key="acme", hard=150)
        code, fact, _ = await told(app, ask, "acme", "ops", 1)
        assert code == "budget-spent"
        assert "limit 'tokens' for 'acme': 200 of 150" in fact


async def test_a_soft_amount_and_an_overrun_are_told_once() -> None:
    app, ask = gateway(hard=100, soft=50)
    heard: list[Event] = []
    app.events.subscribe(heard.append)

    def names() -> list[str]:
        return [e.name for e in heard if e.name in ("limit.soft_reached", "budget.overrun")]

    async with app, app.worker() as worker:
        await ask.enqueue("acme", 60)
        await worker.drain()
        await wait_until(lambda: names() == ["limit.soft_reached"], 10, "the soft amount is told")
        await ask.enqueue("acme", 1, 90)
        await worker.drain()
        await wait_until(lambda: "budget.overrun" in names(), 10, "the overrun is told")
        assert names() == ["limit.soft_reached", "budget.overrun"]
        [event] = [e for e in heard if e.name == "budget.overrun"]
        assert (event.fields["key"], event.fields["spent"]) == ("acme", 150)
        [low] = [one for one in await check_limits(app.store) if one.severity is WARNING]
        assert low.saw == "limit 'tokens' for 'acme': 150 spent or reserved: its soft amount"
        assert low.advice == "let more be spent, before jobs wait"
        await ask.enqueue("acme", 60)
        await worker.drain()
        [low] = [one for one in await check_limits(app.store) if one.severity is WARNING]
        assert low.saw.endswith("its soft amount, and jobs wait for more")
        assert low.advice == "let more be spent"


async def nothing(scene: Scene) -> None:
    """A store is enough."""


def test_the_command_line_tells_what_is_spent_and_what_was_added(desk: Desk) -> None:
    desk.seed(lambda scene: define(scene, tokens=Budget(1000)))
    desk.seed(lambda scene: scene.store.limits.take([Take("tokens:", 400)]))
    topped = desk.json("limits", "top-up", "tokens", "500")
    assert (topped["spent"], topped["added"], topped["free"]) == (-100, 500, 1100)
    desk.seed(lambda scene: scene.store.limits.take([Take("tokens:", 1000)]))
    for command in (("show", "tokens"), ("list",)):
        assert "1,400 spent, topped up by 500" in desk.on_store("limits", *command, width=150).out


def test_the_command_line_changes_every_kind(desk: Desk) -> None:
    desk.seed(nothing)
    assert desk.json("limits", "set", "calls", "--most", "5", "--per", "1m", "--create")[
        "settings"
    ] == {
        "kind": "rate",
        "most": 5,
        "per": 60.0,
        "burst": None,
    }
    assert desk.json("limits", "set", "calls", "--burst", "2")["settings"]["burst"] == 2
    assert desk.json("limits", "set", "calls", "--burst", "none")["settings"]["burst"] is None
    daily = ("--hard", "1000", "--soft", "800", "--every", "day")
    assert "there is no limit 'tokens'" in desk.on_store("limits", "set", "tokens", *daily).err
    made = desk.json("limits", "set", "tokens", *daily, "--create")
    assert made["settings"]["every"] == "day"
    own = desk.json("limits", "set", "tokens", "--key", "acme", "--hard", "2000")
    assert (own["override"]["hard"], own["override"]["soft"]) == (2000, 1600)
    said = desk.on_store("limits", "set", "tokens", "--key", "acme//ml", "--hard", "9").err
    assert "none of them empty" in said
    assert desk.json("limits", "top-up", "tokens", "500", "--key", "acme")["spent"] == -500
    assert desk.json("limits", "reset", "tokens", "--key", "acme")["spent"] == 0
    listed = desk.on_store("limits", "list").out
    assert "5 per 60 s" in listed
    assert "1,000 per day, soft 800" in listed
    shown = desk.on_store("limits", "show", "tokens", "--key", "acme").out
    assert "2,000 per day, soft 1,600 (set for this key)" in shown
    assert "begins anew in" in shown
    assert "nothing to change" in desk.on_store("limits", "set", "tokens").err
    assert "--inherit goes with --key" in desk.on_store("limits", "set", "x", "--inherit").err
    wrong = desk.on_store("limits", "set", "tokens", "--most", "3").err
    assert "settings of a Budget: hard, soft, every, timezone, on_failure, got 'most'" in wrong
    assert "must be a budget" in desk.on_store("limits", "top-up", "calls", "5").err


async def spent_by_teams(scene: Scene) -> None:
    """Names between a name and its path: '-' and '.' stand before '/' in the order of bytes."""
    limits = scene.store.limits
    await limits.declare({"tokens": Budget(100)})
    for key in ("acme", "acme-eu", "acme.de", "acme/ml"):
        await limits.adjust(f"tokens:{key}", -10)


def test_what_a_path_has_spent_is_summed_up_once_whatever_names_are_beside_it(desk: Desk) -> None:
    desk.seed(spent_by_teams)
    [shown] = desk.json("limits", "list", "tokens")["limits"]
    assert shown["spent"] == 30, "what acme/ml has spent, acme has spent too"


def test_a_budget_that_was_shut_for_a_while_does_not_tell_of_every_key(desk: Desk) -> None:
    desk.seed(spent_by_teams)
    desk.json("limits", "set", "tokens", "--hard", "1000", "--soft", "800", "--create")
    assert desk.json("limits", "set", "tokens", "--hard", "0")["settings"]["soft"] is None
    assert desk.json("limits", "set", "tokens", "--hard", "1000")["settings"]["soft"] is None


def test_a_period_that_is_none_is_refused_with_those_that_there_are(desk: Desk) -> None:
    desk.seed(spent_by_teams)
    said = desk.on_store("limits", "set", "tokens", "--every", "week").err
    assert "--every must be hour, day, month or none" in said


@pytest.mark.parametrize("cost", [None, 0, "tokens", {"tokens": None}, {"tokens": "7"}])
async def test_a_cost_of_one_call_that_is_none_is_named(cost: Any) -> None:
    app, ask = gateway()
    async with app:
        with pytest.raises(BadOption, match="cost"):
            await ask.using(cost=cost).enqueue("acme", 5)


NEVER = "at most 10: the limit never lets more pass at once, got 11"


@pytest.mark.parametrize(
    "settings",
    [Budget(10), Concurrency(10), Rate(10, per=1), Rate(99, per=1, burst=10)],
    ids=["budget", "concurrency", "window", "burst"],
)
def test_a_cost_that_never_passes_is_refused_where_it_is_declared(
    settings: Budget | Concurrency | Rate,
) -> None:
    tokens = App("sqlite://").limit("tokens", settings)
    assert tokens.by("who", cost=10).cost == 10
    with pytest.raises(BadOption, match=f"cost of limit 'tokens' must be {NEVER}"):
        tokens.by("who", cost=11)


def test_a_cost_of_a_task_that_never_passes_is_refused_where_it_is_declared() -> None:
    app = App("sqlite://")
    tokens = app.limit("tokens", Budget(10))

    async def ask(who: str, most: int = 11) -> None: ...

    declare = {"limits": [tokens.by("who")], "cost": {"tokens": 11}}
    with pytest.raises(BadOption, match=f"task 'ask': cost of limit 'tokens' must be {NEVER}"):
        app.task(name="ask", **declare)(ask)  # type: ignore[call-overload]
    with pytest.raises(
        BadOption, match=f"cost of limit 'tokens', the default of 'most', must be {NEVER}"
    ):
        app.task(name="ask", limits=[tokens.by("who", cost="most")])(ask)
    assert "ask" not in app.tasks
    task = app.task(name="ask", limits=[tokens.by("who")])(ask)
    with pytest.raises(BadOption, match=NEVER):
        task.using(cost={"tokens": 11})
    assert task.using(cost={"tokens": 10}).options.cost == {"tokens": 10}


async def test_a_job_of_any_cost_waits_for_a_limit_that_is_shut() -> None:
    app = App("sqlite://")
    tokens = app.limit("tokens", Budget(0))

    @app.task(limits=[tokens.by("who", cost=50)])
    async def ask(who: str) -> None: ...

    async with Harness(app) as harness:
        job = await ask.enqueue("acme")
        await harness.drain()
        assert (await app.client.get(job.id)).state == "ready"
        await app.client.limits.set(tokens, hard=100)
        await harness.drain()
        assert (await app.client.get(job.id)).state == "succeeded"
