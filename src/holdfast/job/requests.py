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


Request = ReportProgress


class ProgressKept(msgspec.Struct, frozen=True, tag=True):
    """The store has written the progress down."""


class AttemptGone(msgspec.Struct, frozen=True, tag=True):
    """Nothing was done: the attempt is no longer this worker's own. It may answer any request."""


class RequestRefused(msgspec.Struct, frozen=True, tag=True):
    """The store cannot take a value of the request, and never will. It may answer any request."""

    message: str


Answer = ProgressKept | AttemptGone | RequestRefused
