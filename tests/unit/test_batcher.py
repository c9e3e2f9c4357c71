"""enqueue/batcher.py: many calls, few round trips."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.enqueue.batcher import MOST_IN_A_TURN, Batcher


class Line:
    """A flush whose round trips a test ends by hand."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self._open = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def flush(self, items: Sequence[int]) -> list[str]:
        self.batches.append(list(items))
        await self._open.acquire()
        if self.error is not None:
            raise self.error
        return [f"answer {item}" for item in items]

    def returns(self, times: int = 1) -> None:
        for _ in range(times):
            self._open.release()


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def submit_all(batcher: Batcher[int, str], items: Sequence[int]) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(batcher.submit(item)) for item in items]


async def test_a_lone_call_waits_for_nobody() -> None:
    line = Line()
    calls = submit_all(Batcher(line.flush), [1])
    await turn()
    assert line.batches == [[1]]
    line.returns()
    assert await calls[0] == "answer 1"


async def test_calls_that_arrive_during_a_flush_share_the_next() -> None:
    line = Line()
    batcher = Batcher(line.flush)
    first = submit_all(batcher, [1])
    await turn()
    rest = submit_all(batcher, [2, 3, 4])
    await turn()
    line.returns(2)
    answers = await asyncio.gather(*first, *rest)
    assert line.batches == [[1], [2, 3, 4]]
    assert answers == ["answer 1", "answer 2", "answer 3", "answer 4"]


async def test_a_lone_call_is_flushed_by_its_caller_without_a_task() -> None:
    flushed_by: list[object] = []

    async def flush(items: Sequence[int]) -> Sequence[int]:
        flushed_by.append(asyncio.current_task())
        return items

    assert await Batcher(flush).submit(1) == 1
    assert flushed_by == [asyncio.current_task()]


async def test_callers_of_one_turn_share_a_flush_that_never_waits() -> None:
    batches: list[list[int]] = []

    async def flush(items: Sequence[int]) -> Sequence[int]:
        batches.append(list(items))
        return items

    batcher = Batcher(flush)
    assert await asyncio.gather(*(batcher.submit(number) for number in range(5))) == [0, 1, 2, 3, 4]
    assert batches == [[0], [1, 2, 3, 4]]


async def test_a_caller_that_comes_again_and_again_is_never_made_to_wait() -> None:
    flushed_by: list[object] = []

    async def flush(items: Sequence[int]) -> Sequence[int]:
        flushed_by.append(asyncio.current_task())
        return items

    batcher = Batcher(flush)
    for number in range(3):
        await batcher.submit(number)
    assert flushed_by == [asyncio.current_task()] * 3


async def test_a_caller_that_never_has_to_wait_still_lets_the_loop_turn() -> None:
    async def flush(items: Sequence[int]) -> Sequence[int]:
        return items

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    batcher = Batcher(flush)
    for number in range(10 * MOST_IN_A_TURN):
        await batcher.submit(number)
    counting.cancel()
    assert turns >= 9


async def test_callers_answered_together_share_the_next_batch_again() -> None:
    line = Line()
    batcher = Batcher(line.flush)

    async def caller(number: int) -> None:
        for _ in range(3):
            await batcher.submit(number)

    callers = [asyncio.create_task(caller(number)) for number in range(4)]
    await turn()
    line.returns(100)
    await asyncio.gather(*callers)
    assert line.batches[:3] == [[0], [1, 2, 3, 0], [1, 2, 3, 0]]


async def test_a_batch_is_no_larger_than_its_limit() -> None:
    line = Line()
    calls = submit_all(Batcher(line.flush, limit=2), [1, 2, 3, 4, 5, 6])
    await turn()
    line.returns(6)
    await asyncio.gather(*calls)
    assert line.batches == [[1], [2, 3], [4, 5], [6]]


async def test_an_error_reaches_every_caller_of_its_batch_and_no_other() -> None:
    line = Line()
    batcher = Batcher(line.flush)
    line.error = ConnectionError("gone")
    failed = submit_all(batcher, [1, 2, 3])
    await turn()
    line.returns(2)
    for call in failed:
        with pytest.raises(ConnectionError, match="gone"):
            await call
    line.error = None
    line.returns()
    assert await batcher.submit(4) == "answer 4"


async def test_a_caller_that_gives_up_does_not_take_its_item_along() -> None:
    line = Line()
    calls = submit_all(Batcher(line.flush), [1, 2, 3])
    await turn()
    line.returns()
    await turn()
    calls[1].cancel()
    line.returns()
    assert await calls[2] == "answer 3"
    assert line.batches == [[1], [2, 3]]
    assert calls[1].cancelled()


async def test_a_lone_caller_that_gives_up_cancels_no_flush_but_its_own() -> None:
    line = Line()
    batcher = Batcher(line.flush)
    lone, *others = submit_all(batcher, [1, 2, 3])
    await turn()
    lone.cancel()
    await turn()
    assert lone.cancelled()
    line.returns()
    assert await asyncio.gather(*others) == ["answer 2", "answer 3"]
    assert line.batches == [[1], [2, 3]]


async def test_a_caller_that_gives_up_before_its_flush_is_sent_all_the_same() -> None:
    line = Line()
    batcher = Batcher(line.flush)
    submit_all(batcher, [1])
    await turn()
    [early] = submit_all(batcher, [2])
    await turn()
    early.cancel()
    line.returns(2)
    await batcher.aclose()
    assert line.batches == [[1], [2]]


async def test_too_few_answers_are_an_error_not_a_wait_forever() -> None:
    async def forgetful(items: Sequence[int]) -> list[str]:
        return [f"answer {item}" for item in items[1:]]

    calls = submit_all(Batcher(forgetful), [1, 2, 3])
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[0], ValueError)
    assert any(isinstance(answer, ValueError) for answer in answers[1:])


async def test_closing_waits_until_everything_is_answered() -> None:
    line = Line()
    batcher = Batcher(line.flush)
    calls = submit_all(batcher, [1])
    await turn()
    closing = asyncio.create_task(batcher.aclose())
    await turn()
    assert not closing.done()
    line.returns()
    await closing
    assert calls[0].done() or await calls[0] == "answer 1"


async def test_closing_an_idle_batcher_returns_at_once() -> None:
    await Batcher(Line().flush).aclose()


async def test_a_cancelled_flush_leaves_nobody_waiting() -> None:
    line = Line()
    batcher = Batcher(line.flush)
    [lone, *calls] = submit_all(batcher, [1, 2])
    await turn()
    line.returns()
    assert await lone == "answer 1"
    await turn()
    calls += submit_all(batcher, [3])
    await turn()
    [flushing] = [task for task in asyncio.all_tasks() if task.get_name() == "holdfast-batcher"]
    flushing.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2


async def test_a_thousand_calls_share_a_few_flushes() -> None:
    line = Line()
    batcher = Batcher(line.flush)
    calls = submit_all(batcher, range(1_000))
    await turn()
    line.returns(1_000)
    assert await asyncio.gather(*calls) == [f"answer {n}" for n in range(1_000)]
    assert len(line.batches) <= 3


async def test_an_answer_that_is_an_exception_is_raised_to_its_caller_alone() -> None:
    async def flush(items: Sequence[int]) -> list[int | Exception]:
        return [ValueError(f"no {item}") if item % 2 else item for item in items]

    batcher = Batcher(flush)
    with pytest.raises(ValueError, match="no 1"):
        await batcher.submit(1)
    together = await asyncio.gather(*map(batcher.submit, range(4)), return_exceptions=True)
    assert [str(answer) for answer in together] == ["0", "no 1", "2", "no 3"]
