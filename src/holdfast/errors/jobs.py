"""Errors about one job: its id, its key, what is stored of it, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.base import HoldfastError

KEYS_SHOWN = 5


class Unreadable(HoldfastError):
    """Something of a job is stored in a form that this version does not know."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"this version of holdfast cannot read its {what}: {problem}")
        self.what = what
        self.problem = problem

    def __reduce__(self) -> tuple[type[Unreadable], tuple[str, str]]:
        return type(self), (self.what, self.problem)


class NoKey(HoldfastError):
    """A value is encrypted with a key that this program does not have. Programs that have the key
    can read it."""

    def __init__(self, kid: str) -> None:
        super().__init__(
            f"encrypted (key {kid}): this program has no key of that id: "
            "add it to HOLDFAST_KEYS or App(keys=…)"
        )
        self.kid = kid

    def __reduce__(self) -> tuple[type[NoKey], tuple[str]]:
        return type(self), (self.kid,)


class Undecipherable(HoldfastError):
    """A value does not open with the key whose id it names."""

    def __init__(self, kid: str) -> None:
        super().__init__(
            f"encrypted (key {kid}): it does not open with the key of that id: it was altered or "
            "moved here from elsewhere, or this program has another key under the id"
        )
        self.kid = kid

    def __reduce__(self) -> tuple[type[Undecipherable], tuple[str]]:
        return type(self), (self.kid,)


class IllegalMove(HoldfastError):
    """A move between two states that no job makes. It is a defect of the caller, not of the job."""

    def __init__(self, source: str, to: str) -> None:
        super().__init__(f"a job never goes from {source} to {to}: nothing was changed")
        self.source = source
        self.to = to

    def __reduce__(self) -> tuple[type[IllegalMove], tuple[str, str]]:
        return type(self), (self.source, self.to)


class IdTaken(HoldfastError):
    """An id that belongs to a job of another task or with other arguments."""

    def __init__(self, job_id: str, task: str) -> None:
        super().__init__(
            f"task {task!r}: the id {job_id} belongs to a job of another task or with other "
            "arguments: nothing was enqueued; give each call an id of its own, or leave it out"
        )
        self.job_id = job_id
        self.task = task

    def __reduce__(self) -> tuple[type[IdTaken], tuple[str, str]]:
        return type(self), (self.job_id, self.task)


class KeyHeld(HoldfastError):
    """An open transaction holds the unique key. Whether the key is taken is decided when that
    transaction ends. Nothing was enqueued; the same call may succeed later.

    `patience` says for how many seconds a caller should go on trying.
    """

    def __init__(self, keys: Sequence[str], patience: float) -> None:
        named = ", ".join(map(repr, keys[:KEYS_SHOWN]))
        more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
        verb = "is" if len(keys) == 1 else "(some of them) are"
        super().__init__(
            f"unique key {named}{more} {verb} held by a transaction that is still open: nothing "
            "was enqueued; end that transaction, or enqueue again later"
        )
        self.keys = tuple(keys)
        self.patience = patience


class JobNotSucceeded(HoldfastError):
    """A result was asked of a job that ended without one."""

    state = "ended"

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id} {self.state}: {reason or 'no reason recorded'}")
        self.job_id = job_id
        self.reason = reason


class JobFailed(JobNotSucceeded):
    """The job spent its attempts or failed for good; `reason` is its last error."""

    state = "failed"


class JobCancelled(JobNotSucceeded):
    """The job was cancelled before it could succeed."""

    state = "cancelled"


class JobExpired(JobNotSucceeded):
    """The job's deadline passed before it could succeed."""

    state = "expired"


class JobSkipped(JobNotSucceeded):
    """The job was skipped: something it depended on can no longer happen."""

    state = "skipped"


class ChildRaised(HoldfastError):
    """A function in a child process raised, or its process died. The exception itself stays in the
    child: `kind` is the name of its class, `message` its text."""

    def __init__(self, kind: str, message: str, traceback: str | None) -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind = kind
        self.message = message
        self.traceback = traceback


class ResultTimeout(HoldfastError, TimeoutError):
    """The job has not ended in the time given; it goes on. `state` is the last state that was read,
    None if the store has not answered at all."""

    def __init__(self, job_id: str, seconds: float, state: str | None) -> None:
        unseen = "is not known to have ended: the store has not answered"
        stands = unseen if state is None else f"is still {state}"
        super().__init__(f"job {job_id} {stands} after {seconds:g} s")
        self.job_id = job_id
        self.state = state


class Outrun(HoldfastError):
    """A newer attempt has written what this one was about to write."""

    def __init__(self, resource: str, job_id: str, fence: int) -> None:
        super().__init__(
            f"job {job_id}: a newer attempt than this one (fence {fence}) has written "
            f"{resource!r}: roll back and stop here"
        )
        self.resource = resource
        self.job_id = job_id
        self.fence = fence

    def __reduce__(self) -> tuple[type[Outrun], tuple[str, str, int]]:
        return type(self), (self.resource, self.job_id, self.fence)


class FenceTableMissing(HoldfastError):
    """The database of a guarded write has no table of fences."""

    def __init__(self, statement: str) -> None:
        super().__init__(f"add this table to the migrations of your database: {statement}")
        self.statement = statement

    def __reduce__(self) -> tuple[type[FenceTableMissing], tuple[str]]:
        return type(self), (self.statement,)
