"""Every error Holdfast raises on purpose.

    HoldfastError
    ├── BadArguments          a call that does not fit the task's signature
    ├── BadResult             a return value that JSON cannot carry
    ├── BadTask               a task that cannot be registered
    ├── BadOption             an option, name or setting outside its range
    ├── PayloadTooLarge       arguments or result over the limit
    ├── UnknownTask           a name that no registered task has
    ├── UnknownJob            an id that the store does not hold
    ├── UnknownSchedule       a name that no schedule of the store has
    ├── JobNotSucceeded       a result was asked of a job that has none
    │   ├── JobFailed
    │   ├── JobCancelled
    │   ├── JobExpired
    │   └── JobSkipped
    ├── ResultTimeout         the job has not ended in the time given
    ├── Refused               an operation that the job's state does not allow
    ├── NotOpen               the app is used outside `async with app`
    ├── WorkerStalled         a worker left because its store stayed out of reach
    ├── WorkerFrozen          a worker was given up because its event loop was blocked
    ├── StoreError
    │   ├── StoreUnavailable  the store cannot be reached; worth trying again
    │   ├── StoreRefuses      the store answers, and cannot serve this program until it is mended
    │   │   ├── AccessRefused  its login or a right that it needs is refused
    │   │   └── SchemaMissing  the store was never migrated
    │   ├── RowRefused        the store cannot take one of the values it was sent
    │   ├── SchemaOutdated    migrations are waiting
    │   ├── SchemaTooNew      a newer program migrated it
    │   ├── SchemaTampered    an applied migration differs from its file
    │   └── NotCapable        this kind of store cannot do that
    └── NoServer              no throwaway server can be started

Expected ends of an attempt (`Fail`, `Snooze`, …) are values or signals of
the handler, not errors: they live in `holdfast.ends`.
"""

from __future__ import annotations


class HoldfastError(Exception):
    """Base of all errors that Holdfast raises on purpose."""


class _AboutTask(HoldfastError):
    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"task {task!r}: {problem}")
        self.task = task
        self.problem = problem

    def __reduce__(self) -> tuple[type[_AboutTask], tuple[str, str]]:
        return type(self), (self.task, self.problem)


class BadArguments(_AboutTask):
    """A call that does not fit the task's signature."""


class BadResult(_AboutTask):
    """A return value that JSON cannot carry."""


class BadTask(_AboutTask):
    """A task that cannot be registered as it stands."""


class BadOption(HoldfastError):
    """An option, name or setting outside its range."""

    def __init__(self, option: str, expected: str, got: object) -> None:
        super().__init__(f"{option} must be {expected}, got {got!r}")
        self.option = option
        self.expected = expected
        self.got = got


class PayloadTooLarge(HoldfastError):
    """Arguments or result over the limit; nothing was written."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what}: {size} bytes of JSON is over the limit of {limit}; store the data "
            "elsewhere and pass a reference, or raise max_payload"
        )
        self.size = size
        self.limit = limit


class UnknownTask(HoldfastError):
    """A name that no registered task has."""

    def __init__(self, name: str, known: list[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(f"no task is registered as {name!r}; registered here: {listed}")
        self.name = name


class UnknownJob(HoldfastError):
    """An id that the store does not hold: never enqueued, or already pruned."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"no job {job_id}: it was never enqueued here, or retention removed it")
        self.job_id = job_id


class UnknownSchedule(HoldfastError):
    """A name that no schedule of the store has."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no schedule {name!r}: see 'holdfast schedules list'; one declared in code is there "
            "once a worker of that code has started"
        )
        self.name = name


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
    """What the job depended on can no longer happen."""

    state = "skipped"


class ResultTimeout(HoldfastError, TimeoutError):
    """The job has not ended in the time given; it goes on by itself."""

    def __init__(self, job_id: str, seconds: float, state: str) -> None:
        super().__init__(f"job {job_id} is still {state} after {seconds:g} s")
        self.job_id = job_id
        self.state = state


class Refused(HoldfastError):
    """An operation that the job's state does not allow; nothing was changed."""


class NotOpen(HoldfastError):
    """The app is used before `async with app` or after it."""

    def __init__(self) -> None:
        super().__init__("the app is not open: use it inside 'async with app:'")


class WorkerStalled(HoldfastError):
    """The worker cannot make progress and leaves, so that something better may start it anew."""

    def __init__(self, seconds: float, says: str) -> None:
        super().__init__(
            f"the store has not answered for {seconds:.1f} s, more than two leases: the worker "
            "leaves; check the store and the network, then start it again"
            + (f" (its last words: {says})" if says else "")
        )


class WorkerFrozen(HoldfastError):
    """A handler kept the event loop to itself for so long that the worker was given up."""

    def __init__(self, seconds: float, limit: float) -> None:
        super().__init__(
            f"the event loop did not turn for {seconds:.1f} s, more than max_block ({limit:g} s): "
            "its jobs were handed on and the worker leaves; the event worker.loop_frozen says "
            "where it stood; make that handler a plain 'def', which runs in a thread"
        )


class StoreError(HoldfastError):
    """Something about the store itself."""


class StoreUnavailable(StoreError):
    """The store cannot be reached now; the same call may succeed later."""


class StoreRefuses(StoreError):
    """The store answers, and cannot serve this program until somebody mends the store: not for
    what was sent, but for rights, schema or memory. A running worker waits for that."""


class AccessRefused(StoreRefuses):
    """The store refuses the login, or lacks a grant for what this program does."""


class RowRefused(StoreError):
    """The store cannot take one of the values that it was sent: it is too large, or no text or
    number of its kind. The same call would fail for ever; other rows are not to blame."""


class SchemaMissing(StoreRefuses):
    """The store was never migrated."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} has no Holdfast schema: run 'holdfast migrate', "
            "or set HOLDFAST_AUTO_MIGRATE=1"
        )


class SchemaOutdated(StoreError):
    """Migrations of this program have not been applied yet."""

    def __init__(self, where: str, have: int, want: int) -> None:
        super().__init__(
            f"{where} is at schema version {have} but this program needs {want}: "
            "run 'holdfast migrate'"
        )


class SchemaTooNew(StoreError):
    """A newer program migrated this store; an older one must not write to it."""

    def __init__(self, where: str, have: int, want: int) -> None:
        super().__init__(
            f"{where} is at schema version {have} but this program only knows {want}: "
            "upgrade holdfast before using this store"
        )


class SchemaTampered(StoreError):
    """An applied migration differs from the file this program carries."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"migration {name} was applied with other contents than this program carries: "
            "restore the file or install the release that applied it"
        )


class NotCapable(StoreError):
    """This kind of store cannot do what was asked."""

    def __init__(self, store: str, what: str) -> None:
        super().__init__(f"a {store} store cannot {what}")


class NoServer(HoldfastError):
    """No throwaway server can be started for tests or the demo."""
