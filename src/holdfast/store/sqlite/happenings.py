"""What happened to jobs: written by the transaction that changes them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.job.happening import FIRST_KEPT, NEWEST_KEPT
from holdfast.job.record import ERRORS_KEPT
from holdfast.job.what import What
from holdfast.store.sqlite.places import Narrow
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction

KEPT = {
    "first": FIRST_KEPT,
    "newest": NEWEST_KEPT,
    "errors": ERRORS_KEPT,
    "few": min(FIRST_KEPT + NEWEST_KEPT, ERRORS_KEPT),
}


class NewHappening(msgspec.Struct, frozen=True, kw_only=True):
    """A happening as its row has it, but for its time and its number."""

    job_id: str
    what: What
    attempt: int
    fence: int
    worker_id: str | None = None
    claimed_at: int | None = None
    due_at: int | None = None
    by: str | None = None
    kind: str | None = None
    fingerprint: str | None = None
    message: str | None = None
    traceback: str | None = None


def waiting(
    job: Narrow,
    what: What,
    by: str | None,
    message: str | None = None,
    *,
    due_at: int | None = None,
) -> NewHappening:
    """A happening of a job that does not run."""
    return NewHappening(
        job_id=job.job_id,
        what=what,
        attempt=job.attempts,
        fence=job.fence,
        due_at=due_at,
        by=by,
        message=message,
    )


def tell(tx: Transaction, happened: Sequence[NewHappening]) -> None:
    """Write what happened, and forget what is more than a life keeps."""
    if not happened:
        return
    sql = steps("parts/happening")
    tx.each(sql["tell"], [{"at": tx.now, **msgspec.structs.asdict(told)} for told in happened])
    ids = to_json({told.job_id for told in happened})
    tx.run(sql["forget"], {"ids": ids, **KEPT})
