"""Steps and sleeps as a handler writes them: what is recorded is not done again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest

from holdfast import App, Context, Retry, any_of
from holdfast.context import AttemptLost
from holdfast.errors import BadOption, HoldfastError, StepFailed
from holdfast.handle import JobHandle
from holdfast.insights.explain import explain
from holdfast.job.ends import Snooze, Suspending
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.job.step import Step
from holdfast.job.text import MESSAGE_LIMIT
from holdfast.job.what import What
from holdfast.testing import Harness
from holdfast.testing.drained import Drained

AGAIN = Retry(max_attempts=5, base=1, jitter=0)


class Bench:
    """An app with one task, whose handler each test writes, and a note of every call."""

    def __init__(self, **settings: Any) -> None:
        self.app = App("sqlite://", **settings)
        self.calls: list[str] = []

    def does(self, name: str, result: Any = None, fails: int = 0) -> Callable[[], Any]:
        """A function that notes that it was called. It raises a result that is an exception, and
        its first `fails` calls raise anyhow."""

        def function() -> Any:
            self.calls.append(name)
            if isinstance(result, Exception):
                raise result
            if self.calls.count(name) <= fails:
                raise ConnectionError("down")
            return result

        return function

    async def run(self, handler: Callable[..., Any], **options: Any) -> Ran:
        """Run the handler's job until it waits for nothing but time, then let time pass."""
        task = self.app.task(retry=options.pop("retry", AGAIN), **options)(handler)
        async with Harness(self.app) as harness:
            handle = await task.enqueue()
            attempts = []
            for _ in range(20):
                attempts.append(await harness.drain(raises=False))
                if (await self.job(handle.id)).ended:
                    break
                await harness.advance(hours=1)
            return Ran(await self.job(handle.id), attempts, await self.steps(handle.id))

    async def job(self, job_id: JobId) -> Job:
        [job] = await self.app.store.jobs.get([job_id])
        return job

    async def steps(self, job_id: JobId) -> dict[str, Step]:
        found = await self.app.store.steps.load([job_id])
        return {step.name: step for step in found.get(job_id, [])}


@dataclass
class Ran:
    job: Job
    drained: list[Drained]
    steps: dict[str, Step]

    @property
    def ends(self) -> list[str]:
        return [end.how for drained in self.drained for end in drained.ended]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Steps ----------------------------------------------------------------------------------------


async def test_a_recorded_step_is_not_called_again(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        paid = await ctx.step("pay", bench.does("pay", {"id": 7}))
        if ctx.attempt < 3:
            raise ValueError("later")
        return f"paid {paid['id']}"

    ran = await bench.run(handler)
    assert (ran.job.result, bench.calls) == ("paid 7", ["pay"])
    assert ran.ends == ["retried", "retried", "succeeded"]
    assert ran.steps["pay"].result == {"id": 7}


async def test_coroutines_and_plain_functions_are_steps(bench: Bench) -> None:
    async def add(a: int, b: int = 0) -> int:
        await asyncio.sleep(0)
        return a + b

    async def handler(ctx: Context) -> int:
        return await ctx.step("async", add, 1, b=2) + await ctx.step("plain", lambda: 4)

    assert (await bench.run(handler)).job.result == 7


async def test_a_step_gives_the_same_on_every_attempt(bench: Bench) -> None:
    """Also the first one: a result that JSON changes would differ later only."""
    seen: list[object] = []

    async def handler(ctx: Context) -> None:
        seen.append(await ctx.step("pair", lambda: (1, 2)))
        if ctx.attempt == 1:
            raise ValueError("again")

    await bench.run(handler)
    assert seen == [[1, 2], [1, 2]]


@dataclass
class Charge:
    id: int


async def charge(order: int) -> Charge:
    return Charge(order)


async def test_the_result_is_typed_by_the_annotation(bench: Bench) -> None:
    seen: list[Charge] = []

    async def handler(ctx: Context) -> None:
        seen.append(await ctx.step("pay", charge, 7))
        if ctx.attempt == 1:
            raise ValueError("again")

    await bench.run(handler)
    assert seen == [Charge(7), Charge(7)]


async def test_a_repeated_name_is_numbered(bench: Bench) -> None:
    async def handler(ctx: Context) -> list[int]:
        found = [await ctx.step("page", int, n) for n in range(3)]
        if ctx.attempt == 1:
            raise ValueError("again")
        return found

    ran = await bench.run(handler)
    assert ran.job.result == [0, 1, 2]
    assert list(ran.steps) == ["page", "page#2", "page#3"]


async def test_steps_of_a_gather_run_side_by_side_and_keep_their_names(bench: Bench) -> None:
    together = asyncio.Barrier(3)

    async def fetch(n: int) -> int:
        await together.wait()
        return n

    async def handler(ctx: Context) -> list[int]:
        return list(await asyncio.gather(*(ctx.step("fetch", fetch, n) for n in range(3))))

    ran = await bench.run(handler)
    assert ran.job.result == [0, 1, 2]
    results = {name: step.result for name, step in ran.steps.items()}
    assert results == {"fetch": 0, "fetch#2": 1, "fetch#3": 2}


async def test_a_failed_step_is_tried_again_by_the_next_attempt(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        await ctx.step("pay", bench.does("pay"))
        fails = ConnectionError("down") if ctx.attempt < 3 else None
        await ctx.step("mail", bench.does("mail", fails))
        return "done"

    ran = await bench.run(handler)
    assert (ran.job.result, bench.calls) == ("done", ["pay", "mail", "mail", "mail"])
    assert [error.kind for error in ran.job.errors] == ["StepFailed", "StepFailed"]
    assert ran.job.errors[0].message == "step 'mail' failed: ConnectionError: down"


async def test_a_failure_that_the_handler_survived_is_recorded(bench: Bench) -> None:
    """A later attempt goes the same way: it does not try again what it has replaced."""

    async def handler(ctx: Context) -> str:
        try:
            await ctx.step("fast", bench.does("fast", ConnectionError("down")))
        except StepFailed as error:
            bench.calls.append(f"{error.step}: {error.kind}: {error.message}")
            await ctx.step("slow", bench.does("slow"))
        if ctx.attempt == 1:
            raise ValueError("again")
        return "done"

    ran = await bench.run(handler)
    told = "fast: ConnectionError: down"
    assert (ran.job.result, bench.calls) == ("done", ["fast", told, "slow", told])
    assert (ran.steps["fast"].failed, ran.steps["fast"].message) == (True, "down")


async def test_the_jobs_retry_names_what_a_step_raised(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("mail", bench.does("mail", KeyError("address")))

    ran = await bench.run(handler, retry=Retry(max_attempts=3, base=0, not_on=[KeyError]))
    assert (ran.job.state, bench.calls) == (JobState.FAILED, ["mail"])


async def test_a_step_is_tried_as_often_as_its_own_retry_says(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        tries = ctx.step.using(retry=Retry(max_attempts=3, base=0.001, jitter=0))
        await tries("mail", bench.does("mail", ConnectionError("down")))

    ran = await bench.run(handler, retry=Retry.never())
    assert (ran.ends, bench.calls) == (["failed"], ["mail"] * 3)
    assert ran.job.errors[-1].message == "step 'mail' failed after 3 tries: ConnectionError: down"


async def test_a_long_wait_for_the_next_try_gives_the_slot_back(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        tries = ctx.step.using(retry=Retry(max_attempts=3, base=600, jitter=0))
        await ctx.step("pay", bench.does("pay"))
        sent: str = await tries("mail", bench.does("mail", "sent", fails=2))
        return sent

    ran = await bench.run(handler, retry=Retry.never())
    assert (ran.ends, ran.job.result) == (["suspended", "suspended", "succeeded"], "sent")
    assert bench.calls == ["pay", "mail", "mail", "mail"]
    assert (ran.steps["mail"].tries, ran.job.attempts) == (3, 1)


async def test_the_next_attempt_gives_a_step_all_its_tries_again(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        tries = ctx.step.using(retry=Retry(max_attempts=2, base=600, jitter=0))
        sent: str = await tries("mail", bench.does("mail", "sent", fails=3))
        return sent

    ran = await bench.run(handler)
    assert ran.ends == ["suspended", "retried", "suspended", "succeeded"]
    assert (len(bench.calls), ran.job.attempts) == (4, 2)


async def test_a_hint_of_the_error_says_when_to_try_again(bench: Bench) -> None:
    class Busy(Exception):
        retry_after = timedelta(minutes=30)

    async def handler(ctx: Context) -> None:
        tries = ctx.step.using(retry=Retry(max_attempts=2, base=0, jitter=0))
        await tries("mail", bench.does("mail", Busy("wait")))

    task = bench.app.task(retry=Retry.never())(handler)
    async with Harness(bench.app) as harness:
        handle = await task.enqueue()
        await harness.drain()
        job = await bench.job(handle.id)
        assert job.due_at is not None
        assert 1790 < (job.due_at - harness.clock.now).total_seconds() <= 1800


async def test_a_step_that_takes_too_long_has_failed(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        try:
            await ctx.step.using(timeout=0.01)("slow", asyncio.sleep, 60)
        except StepFailed as error:
            return error.kind
        return "in time"

    assert (await bench.run(handler)).job.result == "TimeoutError"


async def test_a_plain_function_cannot_have_a_timeout(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step.using(timeout=1)("plain", bench.does("plain"))

    ran = await bench.run(handler, retry=Retry.never())
    assert "a plain function cannot be stopped" in ran.job.errors[0].message


async def test_a_lazy_step_is_written_with_the_next_one(bench: Bench) -> None:
    seen: list[list[str]] = []

    async def handler(ctx: Context) -> None:
        await ctx.step.using(lazy=True)("total", bench.does("total"))
        seen.append(list(await bench.steps(ctx.job.id)))
        await ctx.step("pay", bench.does("pay"))
        seen.append(list(await bench.steps(ctx.job.id)))

    await bench.run(handler)
    assert seen == [[], ["total", "pay"]]


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
async def test_a_lazy_step_is_written_with_the_end(bench: Bench, fails: bool) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step.using(lazy=True)("total", bench.does("total"))
        if fails and ctx.attempt == 1:
            raise ValueError("again")

    ran = await bench.run(handler)
    assert (list(ran.steps), bench.calls) == (["total"], ["total"])


async def test_a_handler_may_choose_its_end_inside_a_step(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        await ctx.step("look", _snoozes_once(bench))
        return "done"

    assert (await bench.run(handler)).ends == ["snoozed", "succeeded"]


def _snoozes_once(bench: Bench) -> Callable[[], None]:
    def function() -> None:
        bench.calls.append("look")
        if len(bench.calls) == 1:
            raise Snooze(60)

    return function


# Deploys --------------------------------------------------------------------------------------


async def test_steps_are_added_renamed_and_reordered_between_attempts(bench: Bench) -> None:
    plans = [["a", "b", "c"], ["d", "c", "a", "e"]]

    async def handler(ctx: Context) -> None:
        for name in plans[ctx.attempt - 1]:
            await ctx.step(name, bench.does(name))
        if ctx.attempt == 1:
            raise ValueError("a deploy comes between")

    ran = await bench.run(handler)
    assert bench.calls == ["a", "b", "c", "d", "e"]
    assert ran.job.state is JobState.SUCCEEDED


async def test_steps_that_nobody_asks_for_any_more_are_reported(bench: Bench) -> None:
    events: list[Any] = []
    bench.app.events.subscribe(events.append, "job.steps_unused")

    async def handler(ctx: Context) -> None:
        for name in ("pay", "old mail", "old note") if ctx.attempt == 1 else ("pay",):
            await ctx.step(name, bench.does(name))
        if ctx.attempt == 1:
            raise ValueError("a deploy comes between")

    ran = await bench.run(handler)
    assert ran.job.reason == "recorded and not asked for any more: 'old mail', 'old note'"
    [event] = events
    assert (event.fields["steps"], event.fields["count"]) == (["old mail", "old note"], 2)
    async with Harness(bench.app):
        [reason] = (await explain(bench.app.store, ran.job)).reasons
    assert "not asked for any more: 'old mail'" in reason.fact


async def test_a_step_within_a_recorded_step_is_not_unused(bench: Bench) -> None:
    """However deep it is."""

    async def handler(ctx: Context) -> None:
        async def middle() -> str:
            return str(await ctx.step("inner", bench.does("inner")))

        async def outer() -> str:
            return str(await ctx.step("middle", middle))

        await ctx.step("outer", outer)
        if ctx.attempt == 1:
            raise ValueError("once more")

    ran = await bench.run(handler)
    assert (bench.calls, ran.job.reason) == (["inner"], None)
    around = [ran.steps[name].within for name in ("inner", "middle", "outer")]
    assert around == ["middle", "outer", None]


async def test_a_step_within_one_that_is_not_asked_for_is_unused(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        async def outer() -> str:
            return str(await ctx.step("inner", bench.does("inner")))

        await ctx.step("other", bench.does("other"))
        if ctx.attempt == 1:
            await ctx.step("outer", outer)
            raise ValueError("a deploy comes between")

    ran = await bench.run(handler)
    assert ran.job.reason == "recorded and not asked for any more: 'inner', 'outer'"


async def test_a_report_of_unused_steps_is_short_however_many_there_are(bench: Bench) -> None:
    events: list[Any] = []
    bench.app.events.subscribe(events.append, "job.steps_unused")

    async def handler(ctx: Context) -> None:
        if ctx.attempt == 1:
            for n in range(300):
                await ctx.step.using(lazy=True)(f"old {n:03}", bench.does("old"))
            raise ValueError("a deploy comes between")
        await ctx.step("new", bench.does("new"))

    ran = await bench.run(handler)
    [event] = events
    assert event.fields["steps"] == [f"old {n:03}" for n in range(20)]
    assert event.fields["count"] == 300
    assert len(ran.job.reason or "") <= MESSAGE_LIMIT


@pytest.mark.parametrize("version", [None, "2"])
async def test_a_result_that_no_longer_fits_runs_again_only_by_another_version(
    bench: Bench, version: str | None
) -> None:
    def old() -> str:
        return "seven"

    def new() -> int:
        bench.calls.append("new")
        return 7

    async def handler(ctx: Context) -> int:
        if ctx.attempt == 1:
            await ctx.step("count", old)
            raise ValueError("a deploy comes between")
        return await ctx.step.using(version=version)("count", new)

    ran = await bench.run(handler, retry=Retry(max_attempts=2, base=0))
    if version is None:
        assert (ran.job.state, bench.calls) == (JobState.FAILED, [])
        assert "does not fit the function's annotation" in ran.job.errors[-1].message
    else:
        assert (ran.job.result, bench.calls) == (7, ["new"])
        assert (ran.steps["count"].version, ran.steps["count"].result) == ("2", 7)


async def test_a_result_that_fits_is_taken_whatever_the_version(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        chosen = ctx.step.using(version=str(ctx.attempt))
        await chosen("pay", bench.does("pay"))
        if ctx.attempt == 1:
            raise ValueError("again")

    await bench.run(handler)
    assert bench.calls == ["pay"]


# Limits ---------------------------------------------------------------------------------------


async def test_a_job_has_so_many_steps_and_no_more() -> None:
    bench = Bench(max_steps=3)

    async def handler(ctx: Context) -> None:
        for _ in range(10):
            await ctx.step("again", bench.does("again"))

    ran = await bench.run(handler)
    assert (ran.job.state, ran.ends, len(ran.steps)) == (JobState.FAILED, ["failed"], 3)
    assert "has recorded 3 steps, and max_steps is 3" in ran.job.errors[0].message


@pytest.mark.parametrize(
    ("settings", "size", "said"),
    [({"max_payload": 2_000}, 3_000, "over max_payload, 2000"),
     ({"max_steps_size": 2_000}, 900, "max_steps_size is 2000")],
)  # fmt: skip
async def test_steps_take_so_many_bytes_and_no_more(
    settings: dict[str, int], size: int, said: str
) -> None:
    bench = Bench(**settings)

    async def handler(ctx: Context) -> None:
        for _ in range(3):
            await ctx.step("data", lambda: "x" * size)

    ran = await bench.run(handler)
    assert (ran.job.state, ran.ends) == (JobState.FAILED, ["failed"])
    assert said in ran.job.errors[0].message


@pytest.mark.parametrize("name", ["", "x" * 201, "a#2", "nul\x00", 7])
async def test_a_bad_name_is_refused(bench: Bench, name: Any) -> None:
    async def handler(ctx: Context) -> str:
        with pytest.raises(BadOption, match="the name of a step"):
            await ctx.step(name, bench.does("x"))
        return "refused"

    assert (await bench.run(handler)).job.result == "refused"


@pytest.mark.parametrize(
    "options",
    [{"retry": 3}, {"timeout": -1}, {"lazy": "no"}, {"version": 2}, {"undo": len}, {"x": None}],
)
async def test_a_bad_option_is_refused(bench: Bench, options: dict[str, Any]) -> None:
    async def handler(ctx: Context) -> str:
        with pytest.raises(BadOption):
            cast("Any", ctx.step).using(**options)
        return "refused"

    assert (await bench.run(handler)).job.result == "refused"


async def test_a_result_that_json_cannot_carry_fails_the_job(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("lock", threading.Lock)

    ran = await bench.run(handler)
    assert (ran.ends, ran.job.errors[0].kind) == (["failed"], "StepRefused")


# Sleeps ---------------------------------------------------------------------------------------


async def test_a_sleep_gives_the_slot_back_and_spends_no_attempt(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        await ctx.step("pay", bench.does("pay"))
        await ctx.sleep("cooling off", days=3)
        await ctx.step("ship", bench.does("ship"))
        return f"attempt {ctx.attempt}"

    task = bench.app.task()(handler)
    async with Harness(bench.app) as harness:
        handle = await task.enqueue()
        await harness.drain()
        job = await bench.job(handle.id)
        assert (job.state, job.attempts, job.reason) == ("suspended", 0, "sleeps 'cooling off'")
        assert job.due_at is not None
        assert job.due_at == harness.clock.now + timedelta(days=3)
        [reason] = (await explain(bench.app.store, job)).reasons
        assert reason.fact.startswith(f"sleeps 'cooling off' until {job.due_at:%Y-%m-%d %H:%M:%S}")
        await harness.advance(hours=71)
        assert (await harness.drain()).attempts == 0
        await harness.advance(hours=2)
        await harness.drain()
        assert (await handle.result(), bench.calls) == ("attempt 1", ["pay", "ship"])
        life = await bench.app.store.jobs.life([handle.id])
        told = [(one.what, one.message) for one in life if one.what is What.SUSPENDED]
        assert told == [(What.SUSPENDED, "sleeps 'cooling off'")]


async def test_a_sleep_is_slept_once(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.sleep("nap", minutes=30)
        bench.calls.append("awake")
        if ctx.attempt < 3:
            raise ValueError("again")

    ran = await bench.run(handler)
    assert ran.ends == ["suspended", "retried", "retried", "succeeded"]
    assert bench.calls == ["awake"] * 3


async def test_a_sleep_counts_from_when_it_began(bench: Bench) -> None:
    """Also if its job was run again meanwhile, for another reason."""

    async def handler(ctx: Context) -> None:
        if not bench.calls:
            bench.calls.append("begun")
            await asyncio.gather(ctx.sleep("long", hours=10), ctx.sleep("short", hours=1))
        await ctx.sleep("long", hours=10)

    task = bench.app.task()(handler)
    async with Harness(bench.app) as harness:
        handle = await task.enqueue()
        began = harness.clock.now
        await harness.drain()
        await harness.advance(hours=1)
        await harness.drain()
        job = await bench.job(handle.id)
        assert job.due_at is not None
        assert abs((job.due_at - began - timedelta(hours=10)).total_seconds()) < 2


async def test_of_several_sleeps_the_first_to_end_wakes_the_job(bench: Bench) -> None:
    async def handler(ctx: Context) -> list[str]:
        async def branch(name: str, hours: float) -> str:
            await ctx.sleep(name, hours=hours)
            await ctx.step(f"after {name}", bench.does(name))
            return name

        return list(await asyncio.gather(branch("long", 5), branch("short", 2)))

    ran = await bench.run(handler)
    assert (bench.calls, ran.job.result) == (["short", "long"], ["long", "short"])
    assert ran.ends[-1] == "succeeded"


async def test_a_sleep_waits_for_steps_that_are_under_way(bench: Bench) -> None:
    async def slow() -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        bench.calls.append("slow")
        return "kept"

    async def handler(ctx: Context) -> str:
        both = await asyncio.gather(ctx.step("slow", slow), ctx.sleep("nap", minutes=5))
        return str(both[0])

    ran = await bench.run(handler)
    assert (ran.ends, ran.job.result) == (["suspended", "succeeded"], "kept")
    assert bench.calls == ["slow"]


async def test_sleeps_of_a_task_group_are_sleeps_too(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep("a", hours=1))
            group.create_task(ctx.sleep("b", hours=2))
        return "awake"

    assert (await bench.run(handler)).job.result == "awake"


async def test_a_short_sleep_keeps_its_slot(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.sleep("blink", 0.01)
        await ctx.sleep("none", 0)

    ran = await bench.run(handler)
    assert (ran.ends, list(ran.steps)) == (["succeeded"], ["blink"])


async def test_what_must_be_done_on_the_way_out_is_done(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        try:
            await ctx.sleep("nap", hours=1)
        except Exception:  # noqa: BLE001 - what a handler may well write
            bench.calls.append("swallowed")
        finally:
            bench.calls.append("closed")

    ran = await bench.run(handler)
    assert (ran.ends, bench.calls) == (["suspended", "succeeded"], ["closed", "closed"])


@pytest.mark.parametrize("goes_on", [False, True], ids=["returns", "takes a step"])
async def test_a_handler_that_will_not_be_left_has_failed(bench: Bench, goes_on: bool) -> None:
    async def handler(ctx: Context) -> str:
        with suppress(BaseException):  # the defect
            await ctx.sleep("nap", hours=1)
        if goes_on:
            with pytest.raises(Suspending):
                await ctx.step("pay", bench.does("pay"))
        return "went on"

    ran = await bench.run(handler)
    assert (ran.ends, bench.calls) == (["failed"], [])
    assert ran.job.errors[0].kind == "SuspendingSwallowed"


async def test_a_gather_that_catches_everything_is_named_where_it_ends_a_job(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        await asyncio.gather(ctx.sleep("nap", hours=1), return_exceptions=True)
        return "went on"

    ran = await bench.run(handler)
    assert "asyncio.gather(…, return_exceptions=True)" in ran.job.errors[0].message
    assert "catch Exception" in ran.job.errors[0].message


async def test_a_handler_that_returns_what_a_gather_caught_is_told_so(bench: Bench) -> None:
    async def handler(ctx: Context) -> object:
        return await asyncio.gather(ctx.sleep("nap", hours=1), return_exceptions=True)

    ran = await bench.run(handler)
    assert "asyncio.gather(…, return_exceptions=True)" in ran.job.errors[0].message


async def test_a_call_in_place_of_a_function_is_refused_with_what_to_write(bench: Bench) -> None:
    async def charge() -> str:
        return "paid"

    async def handler(ctx: Context) -> None:
        await ctx.step("pay", charge())  # type: ignore[call-overload]

    ran = await bench.run(handler)
    said = "what step 'pay' calls must be a function and then its arguments: ctx.step('pay', charge"
    assert ran.job.errors[0].message.startswith(said)


async def test_a_handler_that_fails_on_its_way_out_has_not_slept(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        try:
            await ctx.sleep("nap", hours=1)
        finally:
            if ctx.attempt == 1:
                raise OSError("disk full")

    assert (await bench.run(handler)).ends == ["retried", "suspended", "succeeded"]


async def test_a_step_must_not_sleep(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        async def sleeps() -> None:
            await ctx.sleep("nap", hours=1)

        try:
            await ctx.step("pay", sleeps)
        except StepFailed as error:
            return error.message
        return "slept"

    result = (await bench.run(handler)).job.result
    assert result.startswith("step 'pay' sleeps")


async def test_an_operator_wakes_a_sleeper(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        await ctx.sleep("cooling off", days=3)
        return "awake"

    task = bench.app.task()(handler)
    async with Harness(bench.app) as harness:
        handle = await task.enqueue()
        await harness.drain()
        await bench.app.client.resume(handle.id)
        await harness.drain()
        assert await handle.result() == "awake"


async def test_neither_timeout_nor_lease_count_while_a_job_sleeps(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        await ctx.sleep("cooling off", hours=3)
        return "awake"

    assert (await bench.run(handler, timeout=5)).job.result == "awake"


async def test_the_deadline_counts_while_a_job_sleeps(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.sleep("cooling off", days=3)

    task = bench.app.task()(handler).using(deadline=3600)
    async with Harness(bench.app) as harness:
        handle = await task.enqueue()
        await harness.drain()
        await harness.advance(hours=2)
        assert (await bench.job(handle.id)).state is JobState.EXPIRED


async def test_a_sleeper_is_cancelled(bench: Bench) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.sleep("cooling off", days=3)

    task = bench.app.task()(handler)
    async with Harness(bench.app) as harness:
        handle: JobHandle[None] = await task.enqueue()
        await harness.drain()
        await handle.cancel()
        assert (await bench.job(handle.id)).state is JobState.CANCELLED


@pytest.mark.parametrize("wrong", [{"seconds": -1}, {"days": "three"}, {"hours": float("nan")}])
async def test_a_bad_time_to_sleep_is_refused(bench: Bench, wrong: dict[str, Any]) -> None:
    async def handler(ctx: Context) -> str:
        with pytest.raises(BadOption):
            await ctx.sleep("nap", **wrong)
        return "refused"

    assert (await bench.run(handler)).job.result == "refused"


# Threads, and what has no worker --------------------------------------------------------------


async def test_plain_functions_have_steps_and_sleeps_too(bench: Bench) -> None:
    def handler(ctx: Context) -> str:
        ctx.step_sync("pay", bench.does("pay"))
        ctx.sleep_sync("cooling off", hours=3)
        tries = ctx.step_sync.using(retry=Retry(max_attempts=3, base=0.001, jitter=0), lazy=True)
        sent: str = tries("mail", bench.does("mail", "sent", fails=2))
        return sent

    ran = await bench.run(handler)
    assert (ran.ends, ran.job.result) == (["suspended", "succeeded"], "sent")
    assert bench.calls == ["pay", "mail", "mail", "mail"]


@pytest.mark.parametrize(
    "does",
    [
        lambda ctx: ctx.step("pay", print),
        lambda ctx: ctx.step.using(lazy=True)("pay", print),
        lambda ctx: ctx.sleep("nap", 60),
        lambda ctx: ctx.signal("paid"),
        lambda ctx: ctx.signals(any_of("paid", "cancelled")),
        lambda ctx: (ctx.step_sync("pay", int), ctx.sleep("nap", 60)),
    ],
)
async def test_a_plain_function_is_told_that_it_cannot_await(
    bench: Bench, does: Callable[[Context], object]
) -> None:
    """Otherwise nothing would be done, and the job would succeed."""

    def handler(ctx: Context) -> None:
        does(ctx)

    ran = await bench.run(handler)
    assert ran.job.state is JobState.FAILED
    assert "a plain function cannot await: write ctx.step_sync" in ran.job.errors[0].message


async def test_a_coroutine_is_told_to_await_its_steps(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        with pytest.raises(HoldfastError, match="await the one without _sync"):
            ctx.step_sync("pay", bench.does("pay"))
        return "told"

    assert (await bench.run(handler)).job.result == "told"


async def test_a_task_that_is_run_inline_sleeps_no_time(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        await ctx.step("pay", bench.does("pay"))
        await ctx.sleep("cooling off", days=3)
        return "awake"

    task = bench.app.task()(handler)
    async with Harness(bench.app) as harness:
        assert (await harness.run(task)).result == "awake"
    assert bench.calls == ["pay"]


async def test_an_attempt_that_is_lost_records_nothing(bench: Bench) -> None:
    async def handler(ctx: Context) -> str:
        async def nobodys(records: Any) -> list[bool]:
            return [False for _ in records]

        bench.app.store.steps.record = nobodys  # type: ignore[method-assign]
        with pytest.raises(AttemptLost):
            await ctx.step("pay", bench.does("pay"))
        return "told"

    assert (await bench.run(handler)).job.result == "told"
