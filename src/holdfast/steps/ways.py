"""How the steps of an attempt ask their worker and wait: on a loop, or without one."""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.context import Context
from holdfast.context.link import pause_in_thread
from holdfast.job.requests import Answer, Request

LOOK_SECONDS = 0.1
"""Seconds between two looks of a handler that keeps its slot while it waits for signals."""


class Way(Protocol):
    """How a runner asks its worker and waits: on a loop, or in a thread or process without one.
    `ask` raises what an answer means that refuses a request."""

    has_loop: bool

    async def ask(self, request: Request) -> Answer: ...

    def ask_now(self, request: Request) -> Answer:
        """The answer to what needs no wait."""
        ...

    async def pause(self, seconds: float) -> None: ...


class OnLoop:
    """The way of a coroutine."""

    has_loop = True

    def __init__(self, context: Context) -> None:
        self.ask = context.ask
        self.ask_now = context.ask_sync

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class InThread:
    """The way of a plain function, in a thread or a process. Nothing that it awaits ever waits."""

    has_loop = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self.ask_now = context.ask_sync

    async def ask(self, request: Request) -> Answer:
        return self._context.ask_sync(request)

    async def pause(self, seconds: float) -> None:
        pause_in_thread(self._context.check_cancelled, seconds)
