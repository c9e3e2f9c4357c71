"""A program that carries a canary in everything that a user can write, and a look at all that a
store has kept of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from holdfast import App, Context, Flow, Retry, failed
from holdfast.encryption.keyring import Keyring
from holdfast.job.unique import UniqueBy
from holdfast.testing.servers import ValkeyServer
from tests.support.backends import Backend, Inspectable, SqliteFile

CANARY = "tweety-pie-5151"
FIRST = Keyring({"2026-05": bytes(range(32))})
BOTH = Keyring({"2026-11": bytes(range(32, 64)), "2026-05": bytes(range(32))})
SECOND = Keyring({"2026-11": bytes(range(32, 64))})
QUICK = Retry(max_attempts=2, base=0, jitter=0)


class Yellow(Exception):
    """What a handler of the tests raises."""


def shop(url: str, keys: Keyring | None = FIRST, **options: Any) -> App:
    """An app whose every task, schedule and header has the canary in it."""
    app = App(url, keys=keys, **options)

    @app.task(name="sing", retry=QUICK)
    async def sing(song: str) -> str:
        return f"{song} sung"

    @app.task(name="fall", retry=QUICK)
    async def fall(song: str) -> None:
        song_in_a_local = song
        raise Yellow(f"fell while it sang {song_in_a_local}")

    @app.task(name="rest", retry=QUICK)
    async def rest(ctx: Context, song: str) -> object:
        if ctx.attempt == 1:
            await ctx.progress(0.5, f"half of {song}", checkpoint={"song": song})
            raise Yellow(song)
        return ctx.checkpoint

    @app.task(name="whistle")
    def whistle(song: str) -> str:
        return f"{song} whistled"

    @app.task(name="hear")
    async def hear(ctx: Context, song: str) -> dict[str, Any]:
        return dict(ctx.job.headers)

    @app.task(name="encore")
    async def encore(ctx: Context, song: str) -> str:
        ctx.flow.add(sing, song).named("again")
        await ctx.flow.extend()
        return song

    @app.flow_task(name="concert")
    async def concert(song: str) -> Flow:
        flow = app.flow("concert")
        last = flow.add(encore, song)
        flow.returns(last)
        flow.add(fall, song).after(failed(last))
        return flow

    @app.schedule("0 3 * * *", name="dawn", args={"song": CANARY}, headers={"of": CANARY})
    @app.task(name="wake")
    async def wake(song: str) -> str:
        return song

    app.on_enqueue(lambda task: {"sender": CANARY})
    return app


def one(app: App, name: str) -> Any:
    return app.tasks[name]


async def busy_day(app: App) -> None:
    """Do everything that makes a store write something of a user."""
    await one(app, "sing").using(unique=CANARY).enqueue(CANARY)
    await one(app, "sing").using(unique=UniqueBy(args=("song",)), delay=900).enqueue(CANARY)
    pushed = UniqueBy(key=f"{CANARY}-pushed", on_conflict="debounce")
    for _ in range(2):
        await one(app, "sing").using(unique=pushed).enqueue(f"{CANARY} pushed")
    waiting = await one(app, "sing").using(delay=900).enqueue(CANARY)
    await app.client.edit(waiting.id, args={"song": f"{CANARY} again"}, by="ann")
    await one(app, "fall").enqueue(CANARY)
    await one(app, "rest").enqueue(CANARY)
    await one(app, "whistle").enqueue_many([(CANARY,), (CANARY,)])
    await one(app, "concert").enqueue(CANARY)
    async with app.worker(queues={"default": 4}) as worker:
        await app.client.schedules.trigger("dawn", by="ann")
        await worker.drain()
    await app.client.cancel(waiting.id, by="ann")
    await app.client.requeue_all(args={"song": CANARY}, task="fall", by="ann")
    await app.client.requeue_all(error_text=CANARY, task="fall", by="ann")
    begun = await app.client.operations.begin(
        "requeue", args={"song": CANARY}, error_text=CANARY, by="ann"
    )
    await app.client.operations.stop(begun.id)
    await drain(app)


async def everything_in(backend: Backend, server: ValkeyServer | None, url: str) -> str:
    """All that a store holds, as text."""
    if isinstance(backend, SqliteFile):
        path = backend.path(url)
        files = [path, Path(f"{path}-wal")]
        return "".join(file.read_bytes().decode("latin-1") for file in files if file.exists())
    if server is not None:
        return "".join(repr(_whole(server, key)) for key in server.keys(url))
    inside = cast("Inspectable", backend)
    tables = await inside.tables(url)
    rows = [await inside.query(url, f"select t::text from {table} as t") for table in tables]
    return repr(rows)


def _whole(server: ValkeyServer, key: str) -> object:
    commands = {
        "string": ("GET", key),
        "hash": ("HGETALL", key),
        "list": ("LRANGE", key, "0", "-1"),
        "set": ("SMEMBERS", key),
        "zset": ("ZRANGE", key, "0", "-1"),
        "stream": ("XRANGE", key, "-", "+"),
    }
    return server.say(*commands[str(server.say("TYPE", key))])


@contextmanager
def all_logged() -> Iterator[list[str]]:
    """Every line that Holdfast writes, formatted with its traceback."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{self.format(record)} {record.__dict__}")

    logger, handler = logging.getLogger("holdfast"), Lines(logging.DEBUG)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


async def drain(app: App) -> None:
    async with app.worker(queues={"default": 4}) as worker:
        await worker.drain()
