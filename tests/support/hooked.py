"""Hooks and handlers that a child process imports."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from holdfast.context import Context, current_job
from holdfast.job.ends import Fail


def told_in_process(ctx: Context, run: Callable[[], Any]) -> Any:
    return f"{run()} in a hook of attempt {ctx.attempt} in {os.getpid()}"


def named_job() -> str:
    job = current_job()
    return "nobody" if job is None else f"{job.task} {job.attempt}"


def refusing() -> str:
    raise Fail("not today")
