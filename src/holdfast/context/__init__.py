"""What a handler sees of the attempt it is running.

`context.py` has `Context` itself, `lasting.py` what of it outlives a process, `calls.py` how it
calls tasks, `streaming.py` what others follow, `growth.py` what `ctx.flow` offers, `current.py` the
job that runs here, `link.py` the way to the worker.
"""

from holdfast.context.calls import on_calls, on_undo
from holdfast.context.context import Context
from holdfast.context.current import HOLDER, CurrentJob, JobHolder, current_job
from holdfast.context.growth import AddedNode, GrowsFlow, on_growth
from holdfast.context.link import AttemptLink, AttemptLost, StopReason

__all__ = [
    "HOLDER",
    "AddedNode",
    "AttemptLink",
    "AttemptLost",
    "Context",
    "CurrentJob",
    "GrowsFlow",
    "JobHolder",
    "StopReason",
    "current_job",
    "on_calls",
    "on_growth",
    "on_undo",
]
