"""Handlers that treat their worker roughly, for a real `holdfast worker tests.support.rough:app`.

    python -m tests.support.rough worker tests.support.rough:app

is that command, with `PLAIN_LOOP` in the environment on asyncio's own loop.

Each notes in the file `NOTES` that it has begun, and what came of it.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

from holdfast import App, Retry

PLAIN_LOOP = "PLAIN_LOOP"
app = App()
FORK = multiprocessing.get_context("fork")


def note(text: str) -> None:
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(f"{text}\n")


@app.task(retry=Retry.constant(max_attempts=5, base=0, jitter=0))
async def linger(seconds: float) -> None:
    note("linger")
    await asyncio.sleep(seconds)


@app.task(retry=Retry.constant(max_attempts=5, base=60, jitter=0))
async def hog(how: str) -> None:
    """Never gives the loop back."""
    note("hog")
    if how == "python":
        while True:
            pass
    elif how == "sleep":
        time.sleep(3600)  # noqa: ASYNC251 - blocking the loop is what it is for
    else:
        # A call into C without the interpreter's lock, which no signal interrupts for long.
        libc = ctypes.CDLL(None)
        while True:
            libc.usleep(999_999)


@app.task(retry=Retry.never())
async def stop_a_child(how: str) -> None:
    """Starts children and ends them with SIGTERM, as multiprocessing does."""
    if how == "process":
        for _ in range(10):
            child = FORK.Process(target=time.sleep, args=(60,))
            child.start()
            child.terminate()
            child.join(10)
            note(f"child {child.exitcode}")
    else:
        with FORK.Pool(2) as pool:
            note(f"child {pool.apply(abs, (-15,))}")


@app.task(retry=Retry.never())
async def meddle(how: str) -> None:
    """Leaves the process's signals or descriptors in disorder."""
    if how == "fork":
        if os.fork() == 0:
            sys.exit(7)
        note(f"child {os.waitstatus_to_exitcode(os.wait()[1])}")  # noqa: ASYNC222 - it ends at once
    elif how == "replace":
        signal.signal(signal.SIGTERM, lambda *_: note("a handler of the user's"))
    elif how == "loop":
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, note, "a handler of the user's")
    elif how == "wakeup":
        signal.set_wakeup_fd(-1)
    note("meddled")


if __name__ == "__main__":
    if PLAIN_LOOP in os.environ:
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # as if it were not installed
    from holdfast.cli.main import main

    main()
