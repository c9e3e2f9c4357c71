"""Pools of warm children behind tasks: what a child says, how it ends, and when a pool rests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast import App, BadOption, BadTask, Context, Event, JobFailed, JobState, Tasks
from holdfast.handlers import pools
from holdfast.job.state import ENDED
from holdfast.worker.worker import Worker
from tests.support.leaks import nothing_leaks
from tests.support.waiting import wait_until

CHILD = [sys.executable, str(Path(__file__).parents[1] / "support" / "pool_child.py")]


@pytest.fixture
def app() -> App:
    """`work` is served by one child, which does as its call says."""
    app = App("sqlite://", lease=1)
    app.pool("workers", CHILD)

    @app.task(name="work", pool="workers", retry=1, timeout=10, max_crashes=1)
    def work(how: str, note: str = "", size: int = 3) -> dict[str, Any]:
        raise AssertionError("the child does the work")

    return app


@asynccontextmanager
async def working(app: App) -> AsyncIterator[Worker]:
    async with nothing_leaks(), app, app.worker(queues={"default": 4}) as worker:
        yield worker


async def result(app: App, how: str, **values: object) -> Any:
    return await (await app.tasks["work"].enqueue(how, **values)).result(timeout=20)


async def failure(app: App, how: str, **values: object) -> str:
    with pytest.raises(JobFailed) as failed:
        await result(app, how, **values)
    return str(failed.value).partition("failed: ")[2]


async def test_a_result_may_be_or_contain_null(app: App) -> None:
    async with working(app):
        assert await result(app, "null") == {"found": None}
        assert await result(app, "ok", note="null and void")
        handle = await app.tasks["work"].enqueue("nothing")
        await wait_until(lambda: _ended(handle), 20, "the job has ended")
        assert (await handle.get()).result_json == "null"


async def test_a_child_stays_warm_and_gets_every_argument(app: App) -> None:
    async with working(app):
        first, second = await result(app, "ok"), await result(app, "ok", size=9)
    assert first["args"] == {"how": "ok", "note": "", "size": 3}
    assert second["args"]["size"] == 9
    assert first["pid"] == second["pid"]


async def test_a_pool_has_no_more_children_than_its_size() -> None:
    app = App("sqlite://")
    app.pool("workers", CHILD, size=2)

    @app.task(name="work", pool="workers")
    def work(how: str) -> dict[str, Any]:
        raise AssertionError("the child does the work")

    async with working(app):
        answers = await asyncio.gather(*(result(app, "ok") for _ in range(20)))
    assert 1 <= len({answer["pid"] for answer in answers}) <= 2


@pytest.mark.parametrize(("how", "kind"), [("error", "BadImage"), ("plain error", "PoolError")])
async def test_an_error_of_the_child_is_that_of_the_job_and_the_child_goes_on(
    app: App, how: str, kind: str
) -> None:
    async with working(app):
        before = (await result(app, "ok"))["pid"]
        job = await app.tasks["work"].enqueue(how)
        with pytest.raises(JobFailed, match="it is no image"):
            await job.result(timeout=20)
        assert [error.kind for error in (await job.get()).errors] == [kind]
        assert (await result(app, "ok"))["pid"] == before


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("garbage", "wrote no reply"),
        ("wrong id", "answered call 3 instead of 2"),
        ("die", "ended with exit code 7: these were its last words"),
    ],
)
async def test_a_child_that_misbehaves_is_replaced(app: App, how: str, said: str) -> None:
    async with working(app):
        before = (await result(app, "ok"))["pid"]
        assert said in await failure(app, how)
        assert (await result(app, "ok"))["pid"] != before
        assert not psutil.pid_exists(before)


async def test_a_child_that_dies_counts_as_a_crash(app: App) -> None:
    async with working(app):
        job = await app.tasks["work"].enqueue("die")
        with pytest.raises(JobFailed):
            await job.result(timeout=20)
        assert (await job.get()).crashes == 1


@pytest.mark.parametrize("by", ["timeout", "cancel"])
async def test_a_call_that_is_given_up_takes_its_child_along(
    app: App, tmp_path: Path, by: str
) -> None:
    note = tmp_path / "note"
    async with working(app):
        seconds = 1 if by == "timeout" else 30
        job = await app.tasks["work"].using(timeout=seconds).enqueue("hang", str(note))
        await wait_until(lambda: note.exists() and " " in note.read_text(), 10, "it hangs")
        if by == "cancel":
            await job.cancel()
        await wait_until(lambda: _ended(job), 20, "the job has ended")
        assert not any(psutil.pid_exists(int(pid)) for pid in note.read_text().split())
        assert (await result(app, "ok"))["args"]["how"] == "ok"


async def _ended(job: Any) -> bool:
    return (await job.get()).state in ENDED


async def test_a_child_that_died_while_it_was_idle_costs_no_attempt(app: App) -> None:
    async with working(app):
        child = psutil.Process((await result(app, "ok"))["pid"])
        child.kill()
        await wait_until(lambda: not child.is_running(), 10, "it is gone")
        await wait_until(lambda: _replaced(app, child.pid), 10, "another answers")


async def _replaced(app: App, pid: int) -> bool:
    return bool((await result(app, "ok"))["pid"] != pid)


async def test_a_pool_whose_children_fail_again_and_again_rests(app: App) -> None:
    """Its jobs wait for it instead of failing one after the other, and everybody can see why."""
    heard: list[Event] = []
    app.events.subscribe(heard.append, "pool.resting")

    @app.task(name="other")
    async def other() -> int:
        return 5

    app.pools["workers"].rest = 3.0
    async with working(app) as worker:
        for _ in range(pools.DEATHS):
            await failure(app, "die")
        waiting = await app.tasks["work"].enqueue("ok")
        assert await (await other.enqueue()).result(timeout=20) == 5
        assert (await waiting.get()).state is JobState.READY
        assert worker.health()["resting"] == ["work"]
        await wait_until(lambda: _is_told(app, waiting.id), 10, "explain says that the pool rests")
        assert [event.fields["pool"] for event in heard] == ["workers"]
        assert (await waiting.result(timeout=20))["args"]["how"] == "ok"
        assert worker.health()["resting"] == []


async def _is_told(app: App, job: str) -> bool:
    return [reason.code for reason in (await app.client.explain(job)).reasons] == ["pool-rests"]


async def test_jobs_that_were_claimed_before_a_pool_rests_spend_no_attempt(app: App) -> None:
    async with working(app):
        dying = [await app.tasks["work"].enqueue("die") for _ in range(10)]
        await wait_until(lambda: app.pools["workers"].rests, 10, "the pool rests")
        await wait_until(lambda: _settled(app), 10, "nothing runs")
        crashes = [(await job.get()).crashes for job in dying]
    assert sum(crashes) == pools.DEATHS


async def _settled(app: App) -> bool:
    return not (await app.client.count()).get(JobState.RUNNING)


# Declaring ---------------------------------------------------------------------------------------


def test_a_task_names_a_pool_that_is_declared_before_it(app: App) -> None:
    with pytest.raises(BadOption, match=r"declared before \(workers\)"):
        app.task(name="x", pool="nobody")


def test_a_pool_is_declared_once(app: App) -> None:
    with pytest.raises(BadOption, match="pool name"):
        app.pool("workers", CHILD)


def test_a_function_of_a_pool_takes_arguments_alone(app: App) -> None:
    def takes_context(ctx: Context) -> None: ...

    with pytest.raises(BadTask, match="leave out the Context"):
        app.task(name="x", pool="workers")(takes_context)
    with pytest.raises(BadTask, match="exclude each other"):
        app.task(name="x", pool="workers", process=True)(lambda: None)


async def test_a_set_of_tasks_brings_its_pools_along() -> None:
    images, app = Tasks(prefix="images."), App("sqlite://")
    images.pool("workers", CHILD)

    @images.task(name="work", pool="workers")
    def work(how: str) -> dict[str, Any]:
        raise AssertionError("the child does the work")

    app.include(images)
    async with working(app):
        answer = await (await work.enqueue("ok")).result(timeout=20)
    assert answer["args"] == {"how": "ok"}
