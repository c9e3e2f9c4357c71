"""Waiting for real processes: look often, give up late, say what was waited for."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

Condition = Callable[[], bool] | Callable[[], Awaitable[bool]]


async def comes_true(holds: Condition, within: float, *, look_every: float = 0.02) -> bool:
    """Whether the condition holds before this many seconds have passed."""
    until = time.monotonic() + within
    while not await _truth(holds):
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(min(look_every, max(0.0, until - time.monotonic())))
    return True


async def wait_until(
    holds: Condition, within: float, what: str, *, look_every: float = 0.02
) -> None:
    """Fail, naming what did not happen, unless the condition holds in time."""
    if not await comes_true(holds, within, look_every=look_every):
        raise AssertionError(f"not within {within:g} s: {what}")


async def _truth(holds: Condition) -> bool:
    answer = holds()
    return await answer if inspect.isawaitable(answer) else answer


SPINS = 1_000_000
SECONDS_OF_SPINS = 0.07
"""What they take on an idle machine of 2026."""


def slowness() -> float:
    """How many times as long as on an idle machine everything takes just now: others use the
    processors, or the host gives fewer of them. A test whose bound is in seconds multiplies it."""
    began, spun = time.monotonic(), 0
    while spun < SPINS:
        spun += 1
    return max(1.0, (time.monotonic() - began) / SECONDS_OF_SPINS)
