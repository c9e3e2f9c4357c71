"""What a handler declares while it runs: nodes of its flow, calls of tasks, and what undoes a step.

`Context` has the verbs for them and must not know this folder, so it is told how they are carried
out. Each of them is imported with its first use, because few handlers have any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holdfast.context import Context, GrowsFlow, on_calls, on_growth, on_undo
from holdfast.job.undo import encode_undo

if TYPE_CHECKING:
    from holdfast.steps.calls import MakesCalls


def offer_to_handlers() -> None:
    """Let `ctx.flow`, `ctx.call` and `ctx.step(undo=…)` work in this process."""
    on_growth(_growing)
    on_calls(_calling)
    on_undo(_undoing)


def _growing(ctx: Context) -> GrowsFlow:
    from holdfast.declaring.growing import GrowingFlow

    return cast("GrowsFlow", GrowingFlow(ctx))  # whoever calls `add` has a `Task`


def _calling(ctx: Context) -> MakesCalls:
    from holdfast.declaring.calls import Calls

    return Calls(ctx)


def _undoing(task: object) -> str:
    from holdfast.declaring.undoing import undo_of

    return encode_undo(undo_of(task))
