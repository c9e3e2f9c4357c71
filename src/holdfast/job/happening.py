"""What happened to a job: the rows from which its life is told.

Everything unusual leaves a row. A plain enqueue, claim and success leave none: the job and its
outcome tell of them. A store writes the row in the same step as the change of which it tells.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.what import What

FIRST_KEPT = 8
NEWEST_KEPT = 24
"""Of a job's happenings without an error the first and the newest are kept, so many of each. Of
its errors the newest are kept (`record.ERRORS_KEPT`), however often it was snoozed."""

DEBOUNCED = "debounced by a newer call"


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job.

    `attempt`, `fence` and `worker_id` are those of the attempt that was under way, and `claimed_at`
    is when it began. While none was under way, `attempt` is how many the job had spent. `due_at`
    is when the job was to go on. `by` names the operator. A happening that tells of an error has
    its `kind`. `message` is the error's, or says why; of a job that was moved or reprioritised it
    is the queue or the priority that the job had before, and of a node that was requeued the
    state in which it had ended.
    """

    job_id: JobId
    at: datetime
    what: What
    attempt: int
    fence: int
    worker_id: WorkerId | None = None
    claimed_at: datetime | None = None
    due_at: datetime | None = None
    by: str | None = None
    kind: str | None = None
    message: str | None = None
    traceback: str | None = None
    fingerprint: str | None = None


def parts_edited(args: object, tags: object) -> str:
    """The message of an edit: what it replaced. The values may be secrets."""
    given = {"arguments": args, "tags": tags}
    return " and ".join(name for name, value in given.items() if value is not None)
