"""The programs under test: each is one task whose handler leaves its mark.

`python -m bench.program ROLE URL TICKS SLOTS` is a worker process of one, run as the command
line runs one: uvloop where it is installed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from bench.sqlite_trace import sqlite_statements_marked
from bench.ticks import Ticks
from holdfast.app import App
from holdfast.context import Context
from holdfast.encryption.keyring import Keyring
from holdfast.job.retry import Retry
from holdfast.limits.model import Concurrency
from holdfast.task import Task

QUEUE = "default"
BESIDE = "beside"  # another queue of the same worker
LINES = tuple(f"line-{number}" for number in range(20))
BURNT = 0.0005
FAILS_ONCE = 20  # one job in so many
WIDE, HUNDRED = 1_000_000, 100
CHARGE: dict[str, str | int] = {"id": "ch_1234567890", "amount": 4200, "currency": "EUR"}

Mark = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Program:
    app: App
    task: Task[..., Any]
    queues: tuple[str, ...] = (QUEUE,)

    def shared_among_queues(self, slots: int) -> Mapping[str, int]:
        return dict.fromkeys(self.queues, slots // len(self.queues))


def noop(url: str, mark: Mark) -> Program:
    app = App(url)

    @app.task(name="noop", queue=QUEUE)
    async def noop(number: int) -> None:
        mark(number)

    return Program(app, noop)


def busy(url: str, mark: Mark) -> Program:
    """Burns processor time rather than waits: a spin by the wall's clock would burn less of it
    where processes share a core."""
    app = App(url)

    @app.task(name="busy", queue=QUEUE)
    async def busy(number: int) -> None:
        mark(number)
        until = time.thread_time() + BURNT
        while time.thread_time() < until:
            pass

    return Program(app, busy)


def waiting(url: str, mark: Mark) -> Program:
    """Runs until the worker is told to stop, which then does not wait for it."""
    app = App(url, grace=0)

    @app.task(name="waiting", queue=QUEUE)
    async def waiting(number: int) -> None:
        mark(number)
        await asyncio.sleep(3600)

    return Program(app, waiting)


def keyed(url: str, mark: Mark) -> Program:
    """A limit at the key of each job that holds nobody up."""
    app = App(url)
    tenant = app.limit("tenant", Concurrency(WIDE))

    @app.task(name="keyed", queue=QUEUE, limits=[tenant.by("key")])
    async def keyed(number: int, key: int) -> None:
        mark(number)

    return Program(app, keyed)


def one_limit(url: str, mark: Mark) -> Program:
    """All jobs pass one limit that holds nobody up."""
    app = App(url)
    shared = app.limit("shared", Concurrency(WIDE))

    @app.task(name="limited", queue=QUEUE, limits=[shared])
    async def limited(number: int) -> None:
        mark(number)

    return Program(app, limited)


def hundred_limits(url: str, mark: Mark) -> Program:
    """A hundred tasks, each with a limit of its own of five at once."""
    app = App(url)

    async def limited(number: int) -> None:
        mark(number)

    tasks = [
        app.task(name=f"limited-{n}", queue=QUEUE, limits=[app.limit(f"of-{n}", Concurrency(5))])(
            limited
        )
        for n in range(HUNDRED)
    ]
    return Program(app, tasks[0])


def alone(url: str, mark: Mark) -> Program:
    """One at once."""
    app = App(url)
    only = app.limit("only", Concurrency(1))

    @app.task(name="alone", queue=QUEUE, limits=[only])
    async def alone(number: int) -> None:
        mark(number)

    return Program(app, alone)


def realistic(url: str, mark: Mark) -> Program:
    """A document comes in, a summary goes out, and one job in twenty fails the first time."""
    app = App(url)

    @app.task(name="realistic", queue=LINES[0], retry=Retry.constant(base=0.01, jitter=0))
    async def realistic(ctx: Context, number: int, document: str) -> dict[str, int | str]:
        mark(number)
        if number % FAILS_ONCE == 0 and ctx.attempt == 1:
            raise ConnectionError("the first attempt fails")
        return {"number": number, "size": len(document), "summary": document[:100]}

    return Program(app, realistic, LINES)


def node(url: str, mark: Mark) -> Program:
    """A node of a flow: it takes results of others, and returns its number or a list of so many."""
    app = App(url)

    @app.task(name="node", queue=QUEUE)
    async def node(
        number: int, given: int | list[int] | None = None, makes: int = 0
    ) -> int | list[int]:
        mark(number)
        return list(range(makes)) if makes else number

    return Program(app, node, (QUEUE, BESIDE))


def steps(url: str, mark: Mark) -> Program:
    """So many steps in sequence, each of which returns a small document."""
    app = App(url)

    async def charge() -> dict[str, str | int]:
        return CHARGE

    @app.task(name="steps", queue=QUEUE)
    async def steps(ctx: Context, number: int, count: int) -> None:
        mark(number)
        for n in range(count):
            await ctx.step(f"step {n}", charge)

    return Program(app, steps)


def suspended(url: str, mark: Mark) -> Program:
    """Leaves its mark when a signal has come, or at a moment; at once if that is over."""
    app = App(url)

    @app.task(name="suspended", queue=QUEUE)
    async def suspended(ctx: Context, number: int, moment: float | None = None) -> None:
        if moment is None:
            await ctx.signal("go")
        else:
            await ctx.sleep("moment", max(0.0, moment - time.time()))
        mark(number)

    return Program(app, suspended)


def streams(url: str, mark: Mark) -> Program:
    """So many frames, each with its number and when it was written, at a steady rate."""
    app = App(url)

    @app.task(name="streams", queue=QUEUE)
    async def streams(
        ctx: Context, number: int, count: int, rate: int, keep: Literal["all", "live"]
    ) -> None:
        mark(number)
        began = time.monotonic() + (number % 50) / 50 / rate
        async with ctx.stream("tokens", keep) as out:
            for n in range(count):
                await asyncio.sleep(began + n / rate - time.monotonic())
                await out.write((n, time.monotonic()))

    return Program(app, streams)


def kilobyte(url: str, mark: Mark, keys: Keyring | None = None) -> Program:
    app = App(url, keys=keys)

    @app.task(name="kilobyte", queue=QUEUE)
    async def kilobyte(number: int, text: str) -> dict[str, int]:
        mark(number)
        return {"number": number, "size": len(text)}

    return Program(app, kilobyte)


def encrypted(url: str, mark: Mark) -> Program:
    return kilobyte(url, mark, Keyring({"bench": bytes(range(32))}))


def traced(url: str, mark: Mark) -> Program:
    """Idle, but each statement of SQLite's leaves a mark: there is no server to ask."""
    sqlite_statements_marked(mark)
    return noop(url, lambda number: None)


ROLES: Mapping[str, Callable[[str, Mark], Program]] = {
    role.__name__: role
    for role in (
        *(noop, busy, waiting, keyed, one_limit, hundred_limits, alone),
        *(realistic, node, steps, suspended, streams, kilobyte, encrypted, traced),
    )
}


def on_fast_loop(main: Coroutine[Any, Any, None]) -> None:
    if find_spec("uvloop") is None:
        asyncio.run(main)
    else:
        import uvloop

        uvloop.run(main)


async def work(program: Program, slots: int) -> None:
    async with program.app.worker(queues=program.shared_among_queues(slots)) as worker:
        await worker.run()


if __name__ == "__main__":
    role, url, path, slots = sys.argv[1:]
    on_fast_loop(work(ROLES[role](url, Ticks(Path(path)).mark), int(slots)))
