"""One live job for one key: a second call gets the first job, replaces it, or postpones it."""

from __future__ import annotations

from holdfast import App, Context, JobState, Retry, UniqueBy
from holdfast.testing import Harness

app = App("sqlite://")
paid: list[int] = []
shipped: list[int] = []


@app.task()
async def greet(user: int, text: str) -> str:
    return f"{text}, {user}"


async def test_a_second_call_with_the_key_gets_the_first_ones_job() -> None:
    async with Harness(app):
        once = greet.using(unique="greet:7")
        first, second = await once.enqueue(7, "hello"), await once.enqueue(7, "hi")
        assert (first.created, second.created) == (True, False)
        assert first.id == second.id


async def test_the_key_can_be_made_of_some_arguments() -> None:
    async with Harness(app):
        once = greet.using(unique=UniqueBy(args=("user",)))
        first, same = await once.enqueue(7, "hello"), await once.enqueue(7, "hi")
        other = await once.enqueue(8, "hello")
        assert first.id == same.id != other.id


async def test_the_key_is_free_when_the_job_has_ended() -> None:
    async with Harness(app) as harness:
        once = greet.using(unique="greet:7")
        first = await once.enqueue(7, "hello")
        await harness.drain()
        assert (await once.enqueue(7, "hello")).id != first.id


async def test_a_new_call_can_replace_one_that_waits() -> None:
    async with Harness(app) as harness:
        last = greet.using(unique=UniqueBy(key="greet:7", on_conflict="replace"))
        first, second = await last.enqueue(7, "hello"), await last.enqueue(7, "hi")
        await harness.drain()
        assert (await first.get()).state is JobState.CANCELLED
        assert await second.result() == "hi, 7"


async def test_a_new_call_can_postpone_one_that_waits() -> None:
    async with Harness(app) as harness:
        later = greet.using(delay=60, unique=UniqueBy(key="greet:7", on_conflict="debounce"))
        job = await later.enqueue(7, "hello")
        await harness.advance(seconds=40)
        await later.enqueue(7, "hello")
        await harness.advance(seconds=40)
        assert (await harness.drain()).attempts == 0
        await harness.advance(seconds=20)
        await harness.drain()
        assert await job.result() == "hello, 7"


async def test_a_burst_of_calls_becomes_one_job_with_the_newest_arguments() -> None:
    async with Harness(app) as harness:
        by = UniqueBy(key="greet:9", on_conflict="debounce", max_wait=100)
        settled = greet.using(delay=60, unique=by)
        first = await settled.enqueue(9, "Ann")
        for name in ("Bea", "Cy", "Dee"):
            await harness.advance(seconds=30)
            await settled.enqueue(9, name)
        await harness.advance(seconds=10)  # the longest wait is over, although calls kept coming
        assert (await harness.drain()).attempts == 1
        assert await first.result() == "Dee, 9"


async def test_a_key_can_be_held_for_a_period_also_if_its_job_has_ended() -> None:
    async with Harness(app) as harness:
        daily = greet.using(unique=UniqueBy(args=("user",), period=86_400))
        first = await daily.enqueue(7, "good morning")
        await harness.drain()
        await harness.advance(hours=23)
        assert not (await daily.enqueue(7, "good morning")).created
        await harness.advance(hours=1)
        assert (await daily.enqueue(7, "good morning")).id != first.id


def pay(order: int) -> int:
    paid.append(order)
    return order


@app.task(retry=Retry(max_attempts=2, base=3_600, jitter=0))
async def ship(ctx: Context, order: int) -> None:
    payment = await ctx.step("pay", pay, order)
    if ctx.attempt == 1:
        raise ConnectionError("the carrier is down")
    assert payment == order
    shipped.append(order)


async def test_a_job_that_has_begun_keeps_its_arguments_and_its_time() -> None:
    """Its payment is recorded: the next attempt must not ship another order."""
    async with Harness(app) as harness:
        newest = ship.using(delay=5, unique=UniqueBy(key="cart", on_conflict="debounce"))
        first = await newest.enqueue(1)
        await harness.advance(seconds=5)
        await harness.drain(raises=False)
        waits = await first.get()
        second = await newest.enqueue(2)
        assert (second.how, second.id, await first.get()) == ("existing", first.id, waits)
        await harness.advance(hours=1)
        await harness.drain()
    assert (paid, shipped) == ([1], [1])
