"""A task that is killed after each of its commits, for tests of tasks with steps.

A commit is a write of recorded steps. Right after it the attempt is taken away, as if its worker
had died there: whatever it still writes is refused, and another attempt goes on with what is
recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import msgspec

from holdfast.handle import JobHandle
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.store.contract.store import Store
from holdfast.task import Task
from holdfast.testing.harness import Harness

if TYPE_CHECKING:
    from holdfast.app import App

P = ParamSpec("P")
R = TypeVar("R")

Answers = Callable[[Harness, JobHandle[Any]], Awaitable[object]]
MOST_ROUNDS = 1_000
"""How often a job may sleep or be tried again before a run is given up."""


class Kills(msgspec.Struct, Generic[R], frozen=True):
    """What `killed_after_every_commit` found: the result, and how often the task was killed."""

    result: R
    kills: int


class KilledAfterEveryCommit:
    """`killed_after_every_commit`, by itself or with somebody who answers what a task waits for."""

    def __init__(self, answer: Answers | None = None) -> None:
        self._answer = answer

    def answering(self, answer: Answers) -> KilledAfterEveryCommit:
        """The same, with a coroutine function that is called with the harness and the handle each
        time the job waits. It sends the signals and gives the votes that the job waits for; what it
        does again must do no harm, so give signals a `key`."""
        return KilledAfterEveryCommit(answer)

    async def __call__(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Kills[R]:
        """Run the task undisturbed, and then once for each of its commits, killed right after it.
        Time that the task sleeps passes at once.

        Raises `AssertionError` if a run ends with another result, or if a step that was recorded is
        called again. The functions of the task run each time: let them be fakes where that matters.
        """
        undisturbed = _Commits(0)
        result = await self._run(undisturbed, task, args, kwargs)
        for n in range(1, undisturbed.count + 1):
            commits = _Commits(n)
            other = await self._run(commits, task, args, kwargs)
            where = f"{task.name} was killed after commit {n} ({commits.last})"
            assert other == result, f"{where}: it returned {other!r}, and {result!r} undisturbed"
            assert not commits.again, f"{where}: {commits.again} were recorded and called again"
        return Kills(result, undisturbed.count)

    async def _run(
        self, commits: _Commits, task: Task[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        async with Harness(cast("App", task.app)) as harness:
            commits.watch(harness.app.store)
            handle = await task.enqueue(*args, **kwargs)
            for _ in range(MOST_ROUNDS):
                await harness.drain(raises=False)
                if (await handle.get()).ended:
                    return await handle.result()
                await self._let_go_on(harness, handle)
            raise AssertionError(f"{task.name} has not ended after {MOST_ROUNDS} rounds")

    async def _let_go_on(self, harness: Harness, handle: JobHandle[Any]) -> None:
        """Answer what the job waits for; if nobody does, let its time pass."""
        if self._answer is not None:
            await self._answer(harness, handle)
        job = await handle.get()
        if job.state is not JobState.READY and job.due_at is not None:
            await harness.advance(max(0.0, (job.due_at - harness.clock.now).total_seconds()))


killed_after_every_commit = KilledAfterEveryCommit()


class _Commits:
    """Counts the commits of a run, and takes the attempt away after the one of this number."""

    def __init__(self, kill_after: int) -> None:
        self._kill_after = kill_after
        self._recorded: dict[tuple[JobId, str], int] = {}
        self.count = 0
        self.last = ""
        self.again: list[str] = []

    def watch(self, store: Store) -> None:
        steps: Any = store.steps
        record = steps.record

        async def watched(records: Sequence[StepRecord]) -> list[bool]:
            kept: list[bool] = await record(records)
            self._note([one for one, ours in zip(records, kept, strict=True) if ours])
            if self.count != self._kill_after or not any(kept):
                return kept
            self.last = ", ".join(repr(one.name) for one in records)
            await _take_away(store, [one.id for one in records])
            return [False] * len(records)

        steps.record = watched

    def _note(self, records: Sequence[StepRecord]) -> None:
        self.count += bool(records)
        for one in records:
            if one.result is None:
                continue
            fence = self._recorded.setdefault((one.id, one.name), one.fence)
            if fence != one.fence:
                self.again.append(one.name)


async def _take_away(store: Store, ids: Sequence[JobId]) -> None:
    why = Reclaimed("killed after a commit")
    await store.jobs.finish([decide(job, why) for job in await store.jobs.live(ids)])
