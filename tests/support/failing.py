"""One function of one name, for the loop and for threads and child processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


def look_up(order: int) -> None:
    raise LookupError(f"order {order} of 'Ann' not found")


def handle(order: int) -> None:
    look_up(order)


def on_loop() -> Callable[[int], Awaitable[None]]:
    async def handle(order: int) -> None:
        look_up(order)

    return handle
