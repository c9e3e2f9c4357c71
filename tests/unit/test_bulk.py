"""bulk.py: many calls on their way to the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from holdfast.enqueue.bulk import WRITE_BATCH, write_all
from holdfast.errors import BadArguments, PartlyInserted, StoreError, StoreUnavailable
from holdfast.job.ids import new_job_id
from holdfast.job.record import Inserted, NewJob


class Desk:
    """A store that a test can hold up, and calls that are numbers."""

    def __init__(self) -> None:
        self.chunks: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.error: Exception | None = None
        self.made = 0

    def make(self, calls: Sequence[object]) -> list[NewJob]:
        return [*map(self._made, calls)]

    def _made(self, call: object) -> NewJob:
        if call == "bad":
            raise BadArguments("count", "not a number")
        self.made += 1
        return NewJob(new_job_id(), "count", "default", str(call), "{}")

    async def write(self, jobs: list[NewJob]) -> list[Inserted]:
        self.chunks.append([job.args for job in jobs])
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return [Inserted(job.id, "created") for job in jobs]


def texts(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


async def test_calls_are_written_in_chunks_and_in_order() -> None:
    desk = Desk()
    written = await write_all(range(WRITE_BATCH + 10), desk.make, desk.write, ahead=True)
    assert len(written) == WRITE_BATCH + 10
    assert desk.chunks == [texts(0, WRITE_BATCH), texts(WRITE_BATCH, WRITE_BATCH + 10)]


async def test_calls_may_come_from_a_stream() -> None:
    async def stream() -> AsyncIterator[int]:
        for number in range(250):
            yield number

    desk = Desk()
    assert len(await write_all(stream(), desk.make, desk.write, ahead=True)) == 250
    assert desk.chunks == [texts(0, 250)]


async def test_the_next_chunk_is_made_while_one_is_on_its_way() -> None:
    desk = Desk()
    desk.open.clear()
    writing = asyncio.create_task(
        write_all(range(3 * WRITE_BATCH), desk.make, desk.write, ahead=True)
    )
    while desk.made < 2 * WRITE_BATCH:  # noqa: ASYNC110 - the other task needs the turns
        await asyncio.sleep(0)
    assert desk.chunks == [texts(0, WRITE_BATCH)]
    desk.open.set()
    assert len(await writing) == 3 * WRITE_BATCH


async def test_without_ahead_no_call_is_asked_for_while_a_chunk_is_on_its_way() -> None:
    desk = Desk()
    desk.open.clear()
    writing = asyncio.create_task(
        write_all(range(2 * WRITE_BATCH), desk.make, desk.write, ahead=False)
    )
    for _ in range(200):
        await asyncio.sleep(0)
    assert desk.made == WRITE_BATCH
    desk.open.set()
    assert len(await writing) == 2 * WRITE_BATCH


async def test_a_call_that_does_not_fit_says_how_many_jobs_stand() -> None:
    desk = Desk()
    with pytest.raises(BadArguments) as caught:
        await write_all([*range(WRITE_BATCH), 1, "bad"], desk.make, desk.write, ahead=True)
    assert caught.value.__notes__ == [
        f"{WRITE_BATCH} jobs before this chunk were written and stand"
    ]
    assert desk.chunks == [texts(0, WRITE_BATCH)]


async def test_an_outage_ends_it_and_nothing_more_is_written() -> None:
    desk = Desk()
    desk.error = StoreUnavailable("gone")
    with pytest.raises(StoreUnavailable):
        await write_all(range(3 * WRITE_BATCH), desk.make, desk.write, ahead=True)
    assert len(desk.chunks) == 1


async def test_a_caller_that_gives_up_stops_the_chunk_on_its_way() -> None:
    desk = Desk()
    desk.open.clear()
    writing = asyncio.create_task(write_all(range(10), desk.make, desk.write, ahead=True))
    while not desk.chunks:  # noqa: ASYNC110 - the other task needs the turns
        await asyncio.sleep(0)
    before = asyncio.all_tasks()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert len(asyncio.all_tasks()) == len(before) - 2


async def test_a_chunk_that_is_refused_in_part_says_which_calls_of_all_stand() -> None:
    desk, asked = Desk(), 0

    async def write(jobs: list[NewJob]) -> list[Inserted]:
        nonlocal asked
        asked += 1
        answers = await desk.write(jobs)
        if asked == 2:
            raise PartlyInserted([*answers[:3], *[None] * 7], StoreError("no room"))
        return answers

    many = WRITE_BATCH + 10
    with pytest.raises(
        PartlyInserted, match=f"{WRITE_BATCH + 3} of {many} jobs .* no room"
    ) as told:
        await write_all(range(many), desk.make, write, ahead=True)
    stand = [answer is not None for answer in told.value.answers]
    assert stand == [True] * (WRITE_BATCH + 3) + [False] * 7


async def test_a_chunk_that_is_refused_whole_says_how_many_jobs_stand() -> None:
    desk = Desk()

    async def write(jobs: list[NewJob]) -> list[Inserted]:
        if desk.chunks:
            raise StoreError("no room")
        return await desk.write(jobs)

    with pytest.raises(StoreError, match="no room") as raised:
        await write_all(range(WRITE_BATCH + 10), desk.make, write, ahead=True)
    assert raised.value.__notes__ == [
        f"{WRITE_BATCH} jobs before this chunk were written and stand"
    ]
