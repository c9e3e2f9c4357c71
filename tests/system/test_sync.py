"""Programs and threads without an event loop: who serves their calls, and how they end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    App,
    BadArguments,
    BadOption,
    Client,
    JobCancelled,
    JobState,
    NotOpen,
    ResultTimeout,
    Task,
    WrongLoop,
)
from holdfast.enqueue.bulk import WRITE_BATCH
from tests.support.backends import Backend
from tests.support.forking import forks


class Shop:
    """An app with a task, on a migrated store."""

    def __init__(self, url: str) -> None:
        self.app = App(url, poll=0.05)

        @self.app.task()
        async def double(number: int) -> tuple[int, str]:
            return 2 * number, "doubled"

        self.double: Task[[int], tuple[int, str]] = double

    def work(self) -> None:
        self.app.run_worker({"default": 5}, burst=True)


@pytest.fixture
def shop(backend: Backend) -> Iterator[Shop]:
    shop = Shop(asyncio.run(backend.empty()))
    yield shop
    shop.app.close_sync()


@pytest.fixture
async def open_shop(backend: Backend) -> Shop:
    return Shop(await backend.empty())


def portals() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "holdfast-portal"]


# Without any loop ---------------------------------------------------------------------------


def test_a_program_without_a_loop_does_everything(shop: Shop) -> None:
    handle, dropped = shop.double.enqueue_sync(21), shop.double.enqueue_sync(1)
    assert dropped.cancel_sync() is JobState.CANCELLED
    shop.work()
    assert handle.result_sync(timeout=20) == (42, "doubled")
    assert handle.get_sync().state is JobState.SUCCEEDED
    assert shop.app.sync.result(handle.id) == [42, "doubled"]
    with pytest.raises(JobCancelled):
        dropped.result_sync()
    shop.app.sync.queues.pause("default", by="ann")
    assert [queue.paused for queue in shop.app.sync.queues.all("default")] == [True]
    assert shop.app.sync.count() == {JobState.SUCCEEDED: 1, JobState.CANCELLED: 1}


def test_a_result_is_not_waited_for_longer_than_asked(shop: Shop) -> None:
    handle = shop.double.enqueue_sync(1)
    with pytest.raises(ResultTimeout, match="still ready"):
        handle.result_sync(0)
    with pytest.raises(ResultTimeout, match="still ready"):
        handle.result_sync(timeout=1)
    with pytest.raises(BadOption, match="timeout"):
        handle.result_sync("soon")  # type: ignore[arg-type]


def test_many_threads_share_one_portal(shop: Shop) -> None:
    threads = [threading.Thread(target=shop.double.enqueue_sync, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shop.app.sync.count() == {JobState.READY: 20}
    assert len(portals()) == 1
    shop.app.close_sync()
    assert portals() == []


def test_many_calls_are_read_in_the_callers_thread_while_others_are_written(shop: Shop) -> None:
    read_by: set[int] = set()
    seen: list[int] = []

    def calls() -> Iterator[tuple[int]]:
        for number in range(2 * WRITE_BATCH + 10):
            read_by.add(threading.get_ident())
            if number == 2 * WRITE_BATCH:
                seen.append(shop.app.sync.count()[JobState.READY])
            yield (number,)

    handles = shop.double.enqueue_many_sync(calls())
    assert len({handle.id for handle in handles}) == 2 * WRITE_BATCH + 10
    assert read_by == {threading.get_ident()}
    assert seen[0] >= WRITE_BATCH
    assert shop.app.sync.count() == {JobState.READY: len(handles)}


def test_a_bad_call_among_many_says_what_stands(shop: Shop) -> None:
    calls = [*((n,) for n in range(WRITE_BATCH)), ("x",)]
    with pytest.raises(BadArguments) as caught:
        shop.double.enqueue_many_sync(calls)
    assert f"{WRITE_BATCH} jobs before this chunk were written" in caught.value.__notes__[0]
    assert shop.app.sync.count() == {JobState.READY: WRITE_BATCH}


def test_the_verbs_on_schedules_know_the_apps_providers(shop: Shop) -> None:
    app = shop.app

    @app.scopes("tenants")
    def tenants() -> list[str]:
        return ["a", "b"]

    @app.task
    def bill(tenant: str) -> None: ...

    rule = bill.scheduled("@hourly", scopes="tenants", scope_as="tenant")
    assert app.sync.schedules.create("bill", rule).name == "bill"
    since = datetime(2024, 1, 1, 0, 30, tzinfo=UTC)
    report = app.sync.schedules.backfill("bill", since, since + timedelta(hours=1))
    assert report.fired == 2
    assert {job.args["tenant"] for job in app.sync.page().jobs} == {"a", "b"}


# Beside a loop ------------------------------------------------------------------------------


async def test_a_thread_beside_the_apps_loop_is_served_by_that_loop(open_shop: Shop) -> None:
    app = open_shop.app

    async def seen(client: Client) -> tuple[asyncio.AbstractEventLoop, bool]:
        return asyncio.get_running_loop(), client is app.client

    async with app, app.worker({"default": 5}):
        assert await asyncio.to_thread(app.run_sync, seen) == (asyncio.get_running_loop(), True)
        handle = await asyncio.to_thread(open_shop.double.enqueue_sync, 4)
        assert await asyncio.to_thread(handle.result_sync, 20) == (8, "doubled")
        assert portals() == []


async def test_a_handler_in_a_thread_may_enqueue(open_shop: Shop) -> None:
    @open_shop.app.task()
    def parent() -> str:
        return open_shop.double.enqueue_sync(5).id

    async with open_shop.app, open_shop.app.worker({"default": 5}):
        child = await (await parent.enqueue()).result(timeout=20)
        assert await open_shop.double.job(child).result(timeout=20) == (10, "doubled")
    assert portals() == []


async def test_a_sync_call_on_the_loops_own_thread_is_refused_at_once(open_shop: Shop) -> None:
    async with open_shop.app:
        handle = await open_shop.double.enqueue(1)
        for call in (
            lambda: open_shop.double.enqueue_sync(2),
            lambda: open_shop.double.enqueue_many_sync([(2,)]),
            handle.result_sync,
            handle.get_sync,
            handle.cancel_sync,
            open_shop.app.sync.count,
        ):
            with pytest.raises(WrongLoop, match=r"own event loop .* await enqueue"):
                call()
        assert await open_shop.app.client.count() == {JobState.READY: 1}
    with pytest.raises(WrongLoop, match=r"await worker\.run"):
        open_shop.app.run_worker()


async def test_a_timeout_holds_although_the_apps_loop_is_blocked(open_shop: Shop) -> None:
    blocked, waited = threading.Event(), threading.Event()

    def wait_for(job_id: str) -> None:
        blocked.wait()
        try:
            with pytest.raises(ResultTimeout, match="not answered"):
                open_shop.app.sync.result(job_id, timeout=0.05)
        finally:
            waited.set()

    async with open_shop.app:
        handle = await open_shop.double.enqueue(1)
        waiting = asyncio.create_task(asyncio.to_thread(wait_for, handle.id))
        await asyncio.sleep(0)
        blocked.set()
        assert waited.wait(30)
        await waiting


async def test_a_call_that_waits_when_the_app_closes_is_told_so(open_shop: Shop) -> None:
    async with open_shop.app:
        handle = await open_shop.double.enqueue(1)
        waiting = asyncio.create_task(asyncio.to_thread(handle.result_sync))
        while not open_shop.app.client._results._awaited:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    with pytest.raises(NotOpen):
        await waiting


def test_a_call_whose_loop_stops_is_told_so(tmp_path: Path) -> None:
    shop = Shop(f"sqlite:///{tmp_path / 'stopped.db'}")
    loop, answers = asyncio.new_event_loop(), []

    def wait() -> None:
        try:
            shop.app.run_sync(stopping)
        except NotOpen as error:
            answers.append(str(error))

    async def stopping(client: Client) -> None:
        loop.call_soon(loop.stop)
        await asyncio.sleep(3600)

    loop.run_until_complete(shop.app.__aenter__())
    caller = threading.Thread(target=wait)
    loop.call_soon(caller.start)
    loop.run_forever()
    caller.join(30)
    assert ["its event loop ended" in answer for answer in answers] == [True]
    assert shop.app.sync.count() == {}, "the portal serves where the loop does not run"
    shop.app.close_sync()
    loop.run_until_complete(shop.app.__aexit__(None, None, None))
    loop.close()


def test_an_app_that_is_not_open_names_the_way_without_a_loop(shop: Shop) -> None:
    handle = shop.double.enqueue_sync(1)
    with pytest.raises(NotOpen, match=r"result_sync or a verb of app\.sync"):
        asyncio.run(handle.result(1))


# Real processes -----------------------------------------------------------------------------

PROGRAM = """
import asyncio, os, sys, threading
from holdfast import App

app = App(sys.argv[1])

@app.task()
def work(n: int) -> int:
    return n + 1
"""

FORKED_BESIDE_A_LOOP = """
opened, over = threading.Event(), threading.Event()

async def serve() -> None:
    async with app:
        opened.set()
        await asyncio.to_thread(over.wait)

server = threading.Thread(target=lambda: asyncio.run(serve()))
server.start()
opened.wait()
work.enqueue_sync(1)
assert not [t for t in threading.enumerate() if t.name == "holdfast-portal"]
child = os.fork()
if child == 0:
    work.enqueue_sync(2)
    assert app.sync.count() == {"ready": 2}
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
over.set()
server.join()
assert app.sync.count() == {"ready": 2}
"""

FORKED_IN_AN_ENQUEUE = """
app._portals._lock.acquire()  # as another thread does that opens the portal at this moment
child = os.fork()
if child == 0:
    work.enqueue_sync(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""

INTERRUPTED = """
handle = work.enqueue_sync(1)
print("waiting", flush=True)
handle.result_sync(timeout=600)
"""

WORKER = """
handle = work.enqueue_sync(1)
def tell() -> None:
    assert handle.result_sync(60) == 2
    print("ran", flush=True)
threading.Thread(target=tell).start()
app.run_worker(poll=0.05)
print("left", flush=True)
"""


NOT_WAITED_FOR = """
work.enqueue_sync(1)
pending = app.begin_sync(lambda client: asyncio.sleep(600))
"""


def run(code: str, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("code", [FORKED_BESIDE_A_LOOP, FORKED_IN_AN_ENQUEUE])
def test_a_forked_child_has_a_portal_of_its_own(code: str, backend: Backend) -> None:
    ran = forks().run_code(PROGRAM + code, asyncio.run(backend.empty()))
    assert ran.returncode == 0, ran.stderr


def test_ctrl_c_ends_a_wait_for_a_result(backend: Backend) -> None:
    child = run(INTERRUPTED, asyncio.run(backend.empty()))
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.2)  # it may be anywhere between the line and the wait
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert (child.returncode, "KeyboardInterrupt" in said) == (-signal.SIGINT, True)


def test_a_program_that_ends_beside_a_pending_call_ends_quietly(tmp_path: Path) -> None:
    child = run(NOT_WAITED_FOR, f"sqlite:///{tmp_path}/jobs.db")
    _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (0, "")


def test_run_worker_works_until_it_is_told_to_stop(backend: Backend) -> None:
    child = run(WORKER, asyncio.run(backend.empty()))
    assert child.stdout is not None
    assert child.stdout.readline() == "ran\n"
    child.send_signal(signal.SIGTERM)
    out, said = child.communicate(timeout=60)
    assert (out, child.returncode) == ("left\n", 0), said


@pytest.mark.parametrize("verb", [None, "count", print, lambda client: client.count])
def test_what_is_no_coroutine_function_of_the_client_is_refused(verb: Any) -> None:
    app = App("sqlite://")
    with pytest.raises(BadOption, match="run_sync must be given a coroutine function"):
        app.run_sync(verb)
    app.close_sync()
