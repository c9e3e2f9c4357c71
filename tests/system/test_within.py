"""`app.within(connection)`: enqueues and verbs on one job join the caller's open transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from contextvars import copy_context
from pathlib import Path

import pytest

from holdfast import App, BadOption, NotCapable, NoTransaction, UnknownJob, WrongLoop
from holdfast.errors import AlreadyOpen
from holdfast.handle import JobHandle
from holdfast.job.state import JobState
from holdfast.task import Task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    app = App(f"sqlite:///{path}")
    app.run_sync(lambda client: client.count())
    yield app
    app.close_sync()


@pytest.fixture
def ship(app: App) -> Task[[int], None]:
    @app.task(name="ship")
    def ship(order: int) -> None: ...

    return ship


@pytest.fixture
def own(path: Path, app: App) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def counted(app: App) -> dict[JobState, int]:
    return app.run_sync(lambda client: client.count())


async def test_every_enqueue_inside_joins_and_using_none_does_not(
    app: App, ship: Task[[int], None], own: sqlite3.Connection
) -> None:
    async with app:
        async with app.within(own):
            alone = await ship.using(connection=None).enqueue(0)
            one = await ship.enqueue(1)
            many = await ship.enqueue_many([(2,), {"order": 3}])
            text = await ship.enqueue_json('{"order": 4}')
            assert await app.client.count() == {JobState.READY: 1}
            assert (await one.get()).args_json == '{"order":1}'
            with app.within(None), pytest.raises(UnknownJob):
                await one.get()
        own.rollback()
        assert await app.client.count() == {JobState.READY: 1}
        assert (await alone.get()).state is JobState.READY
        for lost in (one, *many, text):
            with pytest.raises(UnknownJob):
                await lost.get()
        with app.within(own):
            await ship.enqueue(5)
        own.commit()
        assert await app.client.count() == {JobState.READY: 2}


def test_sync_enqueues_and_verbs_join_in_the_callers_own_thread(
    app: App, ship: Task[[int], None], own: sqlite3.Connection
) -> None:
    """sqlite3 refuses a connection in any other thread, so what works here ran in this one."""
    waiting = ship.using(delay=60).enqueue_sync(0)
    with app.within(own):
        new, *_ = [ship.enqueue_sync(1), *ship.enqueue_many_sync([(2,), (3,)])]
        assert new.get_sync().state is JobState.READY
        assert app.sync.get(new.id).state is JobState.READY
        assert waiting.cancel_sync() is JobState.CANCELLED
        assert counted(app) == {JobState.SCHEDULED: 1}  # lists and counts are the store's own
    own.rollback()
    assert counted(app) == {JobState.SCHEDULED: 1}
    with app.within(own):
        app.run_sync(lambda client: client.cancel(waiting.id))
        with pytest.raises(UnknownJob):
            app.run_sync(lambda client: client.get(new.id))
    own.commit()
    assert counted(app) == {JobState.CANCELLED: 1}


async def test_a_sync_verb_in_another_thread_joins_while_the_loop_of_the_app_serves_it(
    app: App, ship: Task[[int], None], path: Path
) -> None:
    def place_order() -> JobState:
        with closing(sqlite3.connect(path)) as own, own, app.within(own):
            return ship.enqueue_sync(1).get_sync().state

    async with app:
        assert await asyncio.to_thread(place_order) is JobState.READY
        with app.within(object()), pytest.raises(WrongLoop):
            app.sync.count()
        assert await app.client.count() == {JobState.READY: 1}


async def test_a_cancel_inside_happens_only_if_the_caller_commits(
    app: App, ship: Task[[int], None], own: sqlite3.Connection
) -> None:
    async with app:
        job = await ship.enqueue(1)
        async with app.within(own):
            assert await job.cancel() is JobState.CANCELLED
        own.rollback()
        assert (await job.get()).state is JobState.READY
        async with app.within(own):
            await job.cancel()
        own.commit()
        assert (await job.get()).state is JobState.CANCELLED


async def test_an_edit_inside_happens_only_if_the_caller_commits(
    app: App, ship: Task[[int], None], own: sqlite3.Connection
) -> None:
    async with app:
        job = await ship.enqueue(1)
        async with app.within(own):
            await app.client.edit(job.id, tags=["mended"])
            assert (await job.get()).tags == ("mended",)
        own.rollback()
        assert (await job.get()).tags == ()
        async with app.within(own):
            await app.client.edit(job.id, tags=["mended"])
        own.commit()
        assert (await job.get()).tags == ("mended",)


def test_the_innermost_block_counts_and_other_apps_know_nothing_of_it(
    app: App, ship: Task[[int], None], own: sqlite3.Connection, path: Path
) -> None:
    other = App(f"sqlite:///{path}")
    with other.within(object()):
        assert ship.enqueue_sync(1).created
        with app.within(own), app.within(object()), pytest.raises(BadOption, match="connection"):
            ship.enqueue_sync(2)
        with app.within(object()):
            with app.within(own):
                ship.enqueue_sync(3)
            own.rollback()
            with pytest.raises(BadOption):
                ship.enqueue_sync(4)
    assert counted(app) == {JobState.READY: 1}


async def test_a_task_or_thread_that_outlives_the_block_is_told_so(
    app: App, ship: Task[[int], None], own: sqlite3.Connection
) -> None:
    ended = asyncio.Event()

    async def late() -> None:
        await ended.wait()
        await ship.enqueue(1)

    async with app:
        async with app.within(own):
            inherits, context = asyncio.create_task(late()), copy_context()
        ended.set()
        with pytest.raises(NoTransaction, match=r"has ended since.*using\(connection=None\)"):
            await inherits
        with pytest.raises(NoTransaction):
            context.run(ship.enqueue_sync, 1)
        assert (await context.run(asyncio.create_task, opted_out(ship))).created
        assert (await ship.enqueue(2)).created


async def opted_out(ship: Task[[int], None]) -> JobHandle[None]:
    return await ship.using(connection=None).enqueue(1)


def test_threads_without_the_context_join_nothing(
    app: App, ship: Task[[int], None], own: sqlite3.Connection
) -> None:
    with app.within(own):
        thread = threading.Thread(target=ship.enqueue_sync, args=(1,))
        thread.start()
        thread.join()
        assert counted(app) == {JobState.READY: 1}


def test_a_store_without_transactions_says_so_at_once() -> None:
    with pytest.raises(NotCapable, match="join the caller"):
        App("sqlite://").within(object())


async def test_a_store_is_not_replaced_while_the_app_is_open(app: App) -> None:
    async with app:
        with pytest.raises(AlreadyOpen, match="the app is open"), app.using_store("sqlite://"):
            pass
