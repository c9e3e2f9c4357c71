"""Hooks and handlers that a child process imports."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.context import Context, current_job
from holdfast.job.ends import Fail


def told_in_process(ctx: Context, run: Callable[[], Any]) -> Any:
    return f"{run()} in a hook of attempt {ctx.attempt} in {os.getpid()}"


def named_job() -> str:
    job = current_job()
    return "nobody" if job is None else f"{job.task} {job.attempt}"


def telling_what_was_carried(ctx: Context) -> dict[str, str]:
    return dict(ctx.carried)


def writing_at_exit(path: str) -> None:
    atexit.register(Path(path).write_text, "left by itself")


def hanging_at_exit() -> int:
    atexit.register(time.sleep, 600)
    return os.getpid()


def refusing() -> str:
    raise Fail("not today")
