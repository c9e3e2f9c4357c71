"""What a handler may ask of its worker while it runs, and what it is answered.

It is one conversation, whether the handler runs on the event loop, in a thread, in a child
process or in a test: the handler's `Context` sends one `Request` and waits for one `Answer`. The
last word of a handler is the `End` of its attempt (`ends.py`).

To let handlers ask for something new: add its request and its answer here, send it from
`Context`, and answer it in `worker/answering.py`. `handlers/inline.py` answers without a worker.
"""

from __future__ import annotations

import msgspec

from holdfast.job.record import Progress


class ReportProgress(msgspec.Struct, frozen=True, tag=True):
    """Keep this progress with the job."""

    progress: Progress


class FindNodes(msgspec.Struct, frozen=True, tag=True):
    """Which of these names has the flow that the job belongs to?"""

    names: tuple[str, ...]


class ExtendFlow(msgspec.Struct, frozen=True, tag=True):
    """Add this to the flow: a `holdfast.flow.model.Growth` as JSON."""

    growth: str


Request = ReportProgress | FindNodes | ExtendFlow


class ProgressKept(msgspec.Struct, frozen=True, tag=True):
    """The store has written the progress down."""


class NodesFound(msgspec.Struct, frozen=True, tag=True):
    """The flow, and the ids of those of its nodes that were asked for, by name."""

    flow: str
    flow_name: str
    nodes: dict[str, str]


class FlowGrown(msgspec.Struct, frozen=True, tag=True):
    """What became of the growth: a word of `holdfast.flow.model.Grown`."""

    how: str


class AttemptGone(msgspec.Struct, frozen=True, tag=True):
    """Nothing was done: the attempt is no longer this worker's own. It may answer any request."""


class RequestRefused(msgspec.Struct, frozen=True, tag=True):
    """The store cannot take a value of the request, and never will. It may answer any request."""

    message: str


Answer = ProgressKept | NodesFound | FlowGrown | AttemptGone | RequestRefused
