"""The program under test: one task that does nothing but leave its mark.

`python -m bench.program URL TICKS SLOTS` is a worker process of it, run as the
command line runs one: uvloop where it is installed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.ticks import Ticks
from holdfast.app import App
from holdfast.task import Task

QUEUE = "default"

Mark = Callable[[int], object]


def program(url: str, mark: Mark) -> tuple[App, Task[[int], None]]:
    app = App(url)

    @app.task(queue=QUEUE)
    async def noop(number: int) -> None:
        mark(number)

    return app, noop


def on_fast_loop(main: Coroutine[Any, Any, None]) -> None:
    if find_spec("uvloop") is None:
        asyncio.run(main)
    else:
        import uvloop

        uvloop.run(main)


async def work(url: str, ticks: Ticks, slots: int) -> None:
    app, _ = program(url, ticks.mark)
    async with app.worker(queues={QUEUE: slots}) as worker:
        await worker.run()


if __name__ == "__main__":
    url, path, slots = sys.argv[1:]
    on_fast_loop(work(url, Ticks(Path(path)), int(slots)))
