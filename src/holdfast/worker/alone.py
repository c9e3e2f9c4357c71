"""A worker as the whole program: an event loop of its own, signals, and a last resort."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

from holdfast.errors import WrongLoop
from holdfast.worker.last_resort import LastResort


def run_alone(work: Callable[[LastResort | None], Coroutine[Any, Any, None]]) -> None:
    """Run a worker's coroutine function in an event loop of its own, the fastest there is.

    In the main thread the worker is the program: the function gets a `LastResort`, which ends the
    process if the worker cannot leave. In another thread it gets None: the process belongs to
    somebody else.
    """
    if asyncio._get_running_loop() is not None:
        raise WrongLoop.for_run_worker()
    with ExitStack() as stack:
        last_resort = None
        if threading.current_thread() is threading.main_thread():
            last_resort = stack.enter_context(LastResort())
        runner = stack.enter_context(asyncio.Runner(loop_factory=_fastest_loop()))
        runner.run(work(last_resort))


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
