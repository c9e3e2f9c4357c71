"""What `Harness.drain` says about the jobs that it ran, and about those that it left."""

from __future__ import annotations

import pytest

from holdfast import AlreadyOpen, App, Fail, JobState, NotOpen, Retry, Snooze, Throttled, TryAgain
from holdfast.testing import DrainFailed, Harness
from tests.support.leaks import nothing_leaks

app = App("postgres://nobody.invalid/nothing")  # a harness never touches it


@app.task(queue="mail")
async def send(to: str) -> str:
    return f"to {to}"


@app.task(retry=Retry(max_attempts=2, base=60, jitter=0))
async def shaky(how: str) -> None:
    match how:
        case "error":
            raise ConnectionError("no server")
        case "fail":
            raise Fail("never")
        case "later":
            raise Snooze(60)
        case "again":
            raise TryAgain(delay=60)


@app.task(queue="slow")
async def throttled() -> None:
    raise Throttled(retry_after=30)


@app.task()
async def endless() -> None:
    await endless.enqueue()


async def test_the_report_tells_how_each_job_ended() -> None:
    async with nothing_leaks(), Harness(app) as harness:
        await send.enqueue("a")
        await shaky.enqueue("error")
        await shaky.enqueue("later")
        drained = await harness.drain(raises=False)
        assert drained.attempts == 3
        assert sorted(end.how for end in drained.ended) == ["retried", "snoozed", "succeeded"]
        assert drained.states == {JobState.SUCCEEDED: 1, JobState.SCHEDULED: 2}
        assert drained.left == {JobState.SCHEDULED: 2}
        assert drained.of(send).states == {JobState.SUCCEEDED: 1}
        [failure] = drained.failures
        assert failure.error == "ConnectionError: no server"
        assert isinstance(failure.exception, ConnectionError)
        assert "attempt 1 retried: ConnectionError: no server" in str(drained)


async def test_a_failed_attempt_raises_when_all_is_drained_with_its_own_error_as_cause() -> None:
    async with Harness(app) as harness:
        await shaky.enqueue("error")
        sent = await send.enqueue("a")
        with pytest.raises(DrainFailed, match="1 of 2 attempts failed") as caught:
            await harness.drain()
        assert isinstance(caught.value.__cause__, ConnectionError)
        assert (await sent.get()).state is JobState.SUCCEEDED
        await shaky.enqueue("fail")
        await harness.advance(minutes=1)
        with pytest.raises(DrainFailed) as caught:
            await harness.drain()
        group = caught.value.__cause__
        assert isinstance(group, BaseExceptionGroup)
        assert {type(error) for error in group.exceptions} == {ConnectionError, Fail}
        assert caught.value.drained.states == {JobState.FAILED: 2}


async def test_a_job_that_asks_for_another_time_has_not_failed() -> None:
    async with Harness(app) as harness:
        await shaky.enqueue("again")
        await shaky.enqueue("later")
        assert (await harness.drain()).failures == ()


async def test_a_paused_queue_is_left_and_named() -> None:
    async with Harness(app) as harness:
        await send.enqueue("a")
        other = await shaky.enqueue("fine")
        await harness.app.client.queues.pause("mail")
        drained = await harness.drain()
        assert [job.id for job in drained.jobs] == [other.id]
        assert drained.left == {JobState.READY: 1}
        [waiting] = drained.waiting
        assert [reason.code for reason in waiting.reasons] == ["queue-paused"]
        assert "queue 'mail' is paused" in str(drained)
        await harness.app.client.queues.resume("mail")
        assert (await harness.drain()).attempts == 1


async def test_a_cooling_queue_is_left_until_the_clock_has_moved() -> None:
    async with Harness(app) as harness:
        await throttled.enqueue()
        await harness.drain()
        await send.using(queue="slow").enqueue("a")
        drained = await harness.drain()
        assert drained.attempts == 0
        assert "queue 'slow' cools down for 30.0 s" in str(drained)
        await harness.advance(seconds=30)
        assert (await harness.drain()).of(send).states == {JobState.SUCCEEDED: 1}


async def test_a_job_that_is_due_later_and_a_task_of_another_program_are_explained() -> None:
    async with Harness(app) as harness:
        await send.using(delay=300).enqueue("a")
        await app.task_named("elsewhere.charge").enqueue(order=1)
        drained = await harness.drain()
        assert drained.attempts == 0
        codes = [one.reasons[0].code for one in drained.waiting]
        assert codes == ["not-due", "task-unknown"]


async def test_jobs_that_enqueue_jobs_for_ever_are_an_error() -> None:
    async with Harness(app) as harness:
        await endless.enqueue()
        with pytest.raises(AssertionError, match=r"after 20 attempts: .*\(.*endless\)"):
            await harness.drain(limit=20)


async def test_a_second_harness_on_one_app_says_what_is_wrong() -> None:
    async with Harness(app) as first:
        with pytest.raises(AlreadyOpen, match="the other Harness of this app"):
            async with Harness(app):
                raise AssertionError("two stores at once")
        await send.enqueue("a")
        assert (await first.drain()).attempts == 1
        with pytest.raises(AlreadyOpen):
            await first.__aenter__()
        assert (await first.drain()).attempts == 0
    with pytest.raises(NotOpen, match="the harness is not open"):
        await first.drain()
    with pytest.raises(NotOpen, match="the harness is not open"):
        await Harness(app).advance(1)


async def test_nobody_is_told_that_a_test_has_no_workers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Harness(app) as harness:
        await send.enqueue("a")
        await harness.advance(minutes=10)
        await harness.drain()
    assert "queue.unserved" not in caplog.text
