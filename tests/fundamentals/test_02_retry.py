"""A failed attempt is repeated, later each time, up to a number of attempts or for ever; which
exceptions are worth it, and when, may be said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast import App, Context, Fail, JobFailed, JobState, Retry, Snooze, TryAgain
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(retry=Retry(max_attempts=3, base=10, jitter=0))
async def fetch(ctx: Context, works_at: int) -> str:
    if ctx.attempt < works_at:
        raise ConnectionError(f"attempt {ctx.attempt} failed")
    return f"fetched at attempt {ctx.attempt}"


class CardDeclined(Exception):
    pass


@app.task(retry=Retry(on=(ConnectionError,), not_on=(ConnectionRefusedError,), jitter=0))
async def charge(how: str) -> None:
    match how:
        case "lost":
            raise ConnectionResetError(how)
        case "refused":
            raise ConnectionRefusedError(how)
        case _:
            raise CardDeclined(how)


OPENS_AT = datetime(2040, 1, 1, 9, tzinfo=UTC)


@app.task(retry=2)  # it may run twice: runs, not retries
async def fetch_report(spend: bool) -> None:
    if spend:
        raise TryAgain("it is not there yet", at=OPENS_AT)
    raise Snooze(until=OPENS_AT)


@app.task()
async def parse(text: str) -> None:
    raise Fail(f"{text!r} is not a number")


async def test_a_failed_attempt_is_repeated_after_its_wait() -> None:
    async with Harness(app) as harness:
        job = await fetch.enqueue(2)
        await harness.drain(raises=False)
        waiting = await job.get()
        assert (waiting.state, waiting.attempts) == (JobState.SCHEDULED, 1)
        await harness.advance(seconds=10)
        await harness.drain()
        assert await job.result() == "fetched at attempt 2"


async def test_the_last_attempt_decides() -> None:
    async with Harness(app) as harness:
        job = await fetch.enqueue(4)
        for wait in (10, 20, 40):
            await harness.drain(raises=False)
            await harness.advance(seconds=wait)
        with pytest.raises(JobFailed, match="attempt 3 failed"):
            await job.result()
        assert [error.message for error in (await job.get()).errors] == [
            "attempt 1 failed",
            "attempt 2 failed",
            "attempt 3 failed",
        ]


async def test_a_failure_that_no_retry_can_mend_is_final() -> None:
    async with Harness(app) as harness:
        job = await parse.enqueue("x")
        await harness.drain(raises=False)
        with pytest.raises(JobFailed, match="not a number"):
            await job.result()


async def test_only_the_exceptions_that_are_worth_it_are_tried_again() -> None:
    async with Harness(app) as harness:
        jobs = [await charge.enqueue(how) for how in ("lost", "refused", "declined")]
        await harness.drain(raises=False)
        states = [(await job.get()).state for job in jobs]
        assert states == [JobState.SCHEDULED, JobState.FAILED, JobState.FAILED]


async def test_a_job_may_be_tried_for_ever() -> None:
    async with Harness(app) as harness:
        job = await fetch.using(retry=Retry(max_attempts=None, cap=60, jitter=0)).enqueue(9)
        for _ in range(9):
            await harness.drain(raises=False)
            await harness.advance(seconds=60)
        assert await job.result() == "fetched at attempt 9"


async def test_a_handler_says_when_it_wants_to_be_tried_again() -> None:
    async with Harness(app) as harness:
        again, snoozed = await fetch_report.enqueue(True), await fetch_report.enqueue(False)
        await harness.drain()
        for job, spent in ((again, 1), (snoozed, 0)):
            waiting = await job.get()
            assert (waiting.due_at, waiting.attempts) == (OPENS_AT, spent)
