"""Handlers that take of limits and say what they spent, in threads and child processes."""

from __future__ import annotations

from holdfast import Context


def spend_plainly(ctx: Context, who: str, estimate: int, used: int) -> str:
    ctx.take_sync("calls", 1)
    ctx.spent_sync("tokens", used - 1)
    ctx.spent_sync("tokens", 1)
    return who
