"""The program that the processes of these tests run, written as a user would write one.

    python -m tests.support.program worker '{"queues": {"default": 4}, "lease": 2}'
    python -m tests.support.program enqueuer '{"count": 100, "together": 5}'

Every handler notes in the diary when it starts and when it returns; the worker
notes what it claimed and what the store answered to each end it wrote.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from holdfast.app import App
from holdfast.clock import utcnow
from holdfast.context import Context
from holdfast.events import Event
from holdfast.job.ends import Fail, Skip
from holdfast.job.ids import new_job_id
from holdfast.job.retry import Retry
from tests.support.diary import Diary
from tests.support.recording import record

DIARY = "DIARY"
CLOCK = "CLOCK"
SOON = Retry.constant(max_attempts=1_000, base=0, jitter=0)


class SteppedClock:
    """A store's clock that a test sets, in every process at once: a file says by how much."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def override(self) -> datetime | None:
        try:
            return utcnow() + timedelta(seconds=float(self._path.read_text() or 0))
        except FileNotFoundError:
            return None


app = App(clock=SteppedClock(Path(os.environ[CLOCK])) if CLOCK in os.environ else None)


@cache
def diary() -> Diary:
    return Diary(Path(os.environ[DIARY]))


@contextmanager
def noted(ctx: Context, text: str = "") -> Iterator[None]:
    facts = {"job": ctx.job.id, "fence": ctx.fence, "attempt": ctx.attempt, "text": text}
    diary().note("started", **facts)
    yield
    diary().note("returned", **facts)


@app.task(retry=SOON, max_crashes=1_000, keep_result=False)
async def brief(ctx: Context, milliseconds: float) -> None:
    """Waits a moment on the loop."""
    with noted(ctx):
        await asyncio.sleep(milliseconds / 1_000)


STEPS = 10


_NAMES = [f"step {n}" for n in range(STEPS)]
RELEASES = {"1": _NAMES, "2": [*_NAMES[:3], "step three", "new", *_NAMES[5:]]}
"""The steps before and after a deploy that renames one, drops one and adds one."""
RELEASE = "HOLDFAST_TEST_RELEASE"


@app.task(retry=SOON, max_crashes=1_000)
async def stepwise(ctx: Context) -> tuple[list[str], int]:
    """Ten steps, with a sleep in the middle and a wait for a signal after it. The diary has each
    call of a function, and when its record was acknowledged."""

    async def called(name: str) -> str:
        diary().note("called", job=ctx.job.id, fence=ctx.fence, text=name)
        await asyncio.sleep(0.005)
        return name

    found, got = list[str](), -1
    for n, name in enumerate(RELEASES[os.environ.get(RELEASE, "1")]):
        if n == STEPS // 2:
            await ctx.sleep("halfway", seconds=1)
            got = await ctx.signal("go", int)
        found.append(await ctx.step(name, called, name))
        diary().note("recorded", job=ctx.job.id, fence=ctx.fence, text=name)
    return found, got


@app.task(retry=SOON, max_crashes=1_000)
async def talkative(ctx: Context, count: int, rate: float) -> int:
    """So many frames at a steady rate, each with its attempt and when it was written. A step has
    said hello before."""

    async def hello() -> None:
        await out.write({"hello": ctx.fence})

    began = time.monotonic()
    async with ctx.stream("tokens") as out:
        await ctx.step("hello", hello)
        for n in range(count):
            await asyncio.sleep(began + n / rate - time.monotonic())
            await out.write({"fence": ctx.fence, "n": n, "at": time.monotonic()})
    return ctx.fence


@app.task(retry=SOON, max_crashes=1_000, keep_result=False)
def brief_sync(ctx: Context, milliseconds: float) -> None:
    """Waits a moment in a thread."""
    with noted(ctx):
        time.sleep(milliseconds / 1_000)


@app.task(retry=SOON)
async def linger(ctx: Context, seconds: float) -> None:
    """Waits for long, and stops where it waits when told to."""
    with noted(ctx):
        await asyncio.sleep(seconds)


@app.task(retry=SOON)
async def hog(ctx: Context, seconds: float) -> None:
    """Keeps the event loop to itself."""
    with noted(ctx):
        time.sleep(seconds)  # noqa: ASYNC251 - blocking the loop is what it is for


@app.task(retry=SOON)
async def outlive(ctx: Context, sign: str) -> str:
    """Its first attempt lasts until a file appears; the next returns at once.

    The first keeps the loop to itself, so that when its process wakes from a
    stop the handler returns before anything can tell it that it was too late.
    """
    with noted(ctx):
        if ctx.attempt == 1:
            _block_until(Path(sign))
    return f"attempt {ctx.attempt}"


@app.task(retry=Retry.never())
async def await_sign(ctx: Context, sign: str) -> str:
    """May run once; returns when a file appears."""
    with noted(ctx):
        while not Path(sign).exists():  # noqa: ASYNC110, ASYNC240 - a look that takes microseconds
            await asyncio.sleep(0.01)
    return f"attempt {ctx.attempt}"


def _block_until(sign: Path) -> None:
    while not sign.exists():
        time.sleep(0.005)


@app.task(retry=SOON)
async def die(ctx: Context) -> None:
    """Takes its worker with it."""
    with noted(ctx):
        os._exit(13)


@app.task(retry=Retry.never())
async def once(ctx: Context, sign: str) -> None:
    """May run once, and lasts until a file appears; an empty name means no time at all."""
    with noted(ctx):
        while sign and not os.path.exists(sign):  # noqa: ASYNC110, ASYNC240, PTH110 - no event
            await asyncio.sleep(0.02)


@app.task()
async def innocent(ctx: Context, seconds: float) -> None:
    """As most jobs are, by their options too. Later attempts are short: suspects run one by one."""
    with noted(ctx):
        await asyncio.sleep(seconds if ctx.job.attempt == 1 else 0.01)


@app.task()
async def poison(ctx: Context, seconds: float) -> None:
    """Looks like the others, and takes its worker with it."""
    with noted(ctx):
        await asyncio.sleep(seconds)
        os._exit(13)


@app.task(retry=SOON, max_crashes=1_000, keep_result=False)
async def visit(ctx: Context, how: str = "return") -> None:
    """A node of a flow: it returns, fails or asks to be skipped, as it was told."""
    with noted(ctx):
        match how:
            case "fail":
                raise Fail("as it was told")
            case "skip":
                raise Skip("as it was told")


# What a process does ----------------------------------------------------------------------


def note_event(event: Event) -> None:
    if event.level >= logging.WARNING:
        shown = " ".join(f"{name}={value}" for name, value in event.fields.items())
        diary().note("event", text=f"{event.name} {shown}")


async def work(own: App = app, **options: Any) -> None:
    """A worker until it is told to leave."""
    own.events.subscribe(note_event)
    async with own:
        record(own.store.jobs, diary())
        async with own.worker(**options) as worker:
            diary().note("ready")
            await worker.run()
    diary().note("left")


async def enqueue(
    count: int | None = None, together: int = 1, milliseconds: float = 1, pause: float = 0
) -> None:
    """Enqueue one by one, several at a time: so many, or until told to stop."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    left = iter(range(count)) if count is not None else iter(int, 1)

    async def one_by_one() -> None:
        for _ in left:
            if told.is_set():
                return
            await enqueue_one(milliseconds)
            await asyncio.sleep(pause)

    async with app:
        diary().note("ready")
        await asyncio.gather(*(one_by_one() for _ in range(together)))


async def enqueue_one(milliseconds: float) -> None:
    """With an id of our own: it is known even of an enqueue whose answer never came."""
    job = new_job_id()
    try:
        await brief.using(id=job).enqueue(milliseconds)
    except Exception as error:  # noqa: BLE001 - the test wants to see whatever a user would
        diary().note("error", job=job, text=repr(error))
    else:
        diary().note("acknowledged", job=job)


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"worker": work, "enqueuer": enqueue}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(ROLES[sys.argv[1]](**msgspec.json.decode(sys.argv[2])))
