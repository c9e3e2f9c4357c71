"""Every error Holdfast raises on purpose.

    HoldfastError
    ├── BadArguments          a call that does not fit the task's signature
    ├── BadResult             a return value that JSON cannot carry
    ├── BadTask               a task that cannot be registered
    ├── BadImport             a module with tasks that cannot be imported
    ├── NotIncluded           a task of a set that is in no app, or in several
    ├── BadOption             an option, name or setting outside its range
    ├── PayloadTooLarge       arguments or result over the limit
    ├── Unreadable            stored in a form that this version does not know
    ├── NoKey                 encrypted with a key that this program does not have
    ├── Undecipherable        encrypted, and altered since or of another key of the same id
    ├── IllegalMove           a move between two states that no job makes
    ├── IdTaken               an id that a job of another call has
    ├── UnknownTask           a name that no registered task has
    ├── UnknownJob            an id that the store does not hold
    ├── UnknownSchedule       a name that no schedule of the store has
    ├── UnknownWorker         an id or a name that no registered worker has
    ├── UnknownOperation      an id that no operation of the store has
    ├── UnknownFailure        a fingerprint that no error of the store has
    ├── UnknownFlow           an id that no flow of the store has
    ├── BadFlow               a graph of jobs that cannot be started
    │   └── FlowCycle         nodes that wait for each other
    ├── FlowNotSucceeded      a result was asked of a flow that has none
    │   ├── FlowFailed
    │   └── FlowCancelled
    ├── FlowTimeout           the flow has not ended in the time given
    ├── JobNotSucceeded       a result was asked of a job that has none
    │   ├── JobFailed
    │   ├── JobCancelled
    │   ├── JobExpired
    │   └── JobSkipped
    ├── ChildRaised           a function in a child process raised, as hooks around it see that
    ├── ResultTimeout         the job has not ended in the time given
    ├── Refused               an operation that the job's state does not allow
    ├── KeyHeld               a unique key that an open transaction holds
    ├── NoTransaction         there is no open transaction of the caller to join
    ├── AlreadyOpen           the app is open, and must not be for what was asked
    ├── NotOpen               the app is used outside `async with app`
    ├── NotFilledIn           a resource is used where no worker has filled it in
    ├── WrongLoop             the app is used in an event loop that it does not serve
    ├── WorkerStalled         a worker left because its store stayed out of reach
    ├── WorkerFrozen          a worker was given up because its event loop was blocked
    ├── SlotsLost             a worker left because stuck handlers hold too many of its slots
    └── StoreError
        ├── StoreUnavailable  the store cannot be reached; worth trying again
        │   └── StoreFull     the server has no room for another connection
        ├── StoreRefuses      the store answers, and cannot serve this program until it is mended
        │   ├── AccessRefused  its login or a right that it needs is refused
        │   └── SchemaMissing  the store was never migrated
        ├── RowRefused        the store cannot take one of the values it was sent
        ├── PartlyInserted    the store took some jobs of a call and refused the others
        ├── SchemaOutdated    migrations are waiting
        ├── SchemaTooNew      a newer program migrated it
        ├── SchemaTampered    an applied migration differs from its file
        └── NotCapable        this kind of store cannot do that

What a handler returns or raises to end its attempt on purpose (`Fail`, `Snooze`, …) is no error:
see `holdfast.job.ends`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

KEYS_SHOWN = 5


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


class BadImport(HoldfastError):
    """A module that a worker is told to import, and that cannot be. The cause is the error of the
    module itself, with its traceback."""

    def __init__(self, module: str, problem: str) -> None:
        super().__init__(f"module {module!r} cannot be imported: {problem}")
        self.module = module


class NotIncluded(HoldfastError):
    """A task of a set that does not say which app its jobs belong to."""

    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"task {task!r} belongs to {problem}")
        self.task = task

    @classmethod
    def in_none(cls, task: str, place: str) -> NotIncluded:
        advice = f"call app.include(…) with its Tasks, which are made at {place}"
        return cls(task, f"no App: {advice}, in a module that this program imports")

    @classmethod
    def in_several(cls, task: str, count: int) -> NotIncluded:
        which = f"use app.tasks[{task!r}] of the app that is meant, or open only that one"
        return cls(task, f"{count} Apps, and not exactly one of them is open: {which}")


class BadOption(HoldfastError):
    """An option, name or setting outside its range."""

    def __init__(self, option: str, expected: str, got: object) -> None:
        super().__init__(f"{option} must be {expected}, got {_shown(got)}")
        self.option = option
        self.expected = expected
        self.got = got


def _shown(got: object) -> str:
    """The value in at most 500 characters. This never raises, although `repr` may: a number may be
    too long to be written, and a class of the user may break in its own `__repr__`."""
    try:
        text = repr(got)
    except Exception:  # noqa: BLE001 - whatever the value's own class does
        return f"a value of type {type(got).__name__}"
    return text if len(text) <= 500 else f"{text[:500]}…"


class PayloadTooLarge(HoldfastError):
    """Arguments or result over the limit; nothing was written."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what}: {size} bytes of JSON is over the limit of {limit}; store the data "
            "elsewhere and pass a reference, or raise max_payload"
        )
        self.size = size
        self.limit = limit


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


class UnknownTask(HoldfastError):
    """A name that no registered task has."""

    def __init__(self, name: str, known: list[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(f"no task is registered as {name!r}; registered here: {listed}")
        self.name = name


class UnknownJob(HoldfastError):
    """An id that the store does not hold: never enqueued, or already pruned."""

    def __init__(
        self, job_id: str, why: str = "it was never enqueued here, or retention removed it"
    ) -> None:
        super().__init__(f"no job {job_id}: {why}")
        self.job_id = job_id


class UnknownSchedule(HoldfastError):
    """A name that no schedule of the store has."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no schedule {name!r}: see 'holdfast schedules list'; one declared in code is there "
            "once a worker of that code has started"
        )
        self.name = name


class UnknownWorker(HoldfastError):
    """An id or a name that no registered worker has."""

    def __init__(self, worker: str, known: list[str]) -> None:
        listed = ", ".join(known) or "none"
        super().__init__(
            f"no worker has the id or the name {worker!r}; registered: {listed}; "
            "see 'holdfast workers list'"
        )
        self.worker = worker


class UnknownOperation(HoldfastError):
    """An id that no operation of the store has."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(
            f"no operation {operation_id!r}: see 'holdfast operations list'; one that ended a week "
            "ago is removed"
        )
        self.operation_id = operation_id


class UnknownFailure(HoldfastError):
    """A fingerprint that no error of the store has."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(
            f"no failure {fingerprint!r}: see 'holdfast failures list --muted'; one that was not "
            "seen for 90 days is removed"
        )
        self.fingerprint = fingerprint


class UnknownFlow(HoldfastError):
    """An id that no flow of the store has."""

    def __init__(self, flow_id: str) -> None:
        super().__init__(f"there is no flow {flow_id}: it was never started here, or was removed")
        self.flow_id = flow_id

    def __reduce__(self) -> tuple[type[UnknownFlow], tuple[str]]:
        return type(self), (self.flow_id,)


class BadFlow(HoldfastError):
    """A graph of jobs that cannot be started."""


class FlowCycle(BadFlow):
    """Nodes that wait for each other."""

    def __init__(self, circle: Sequence[str]) -> None:
        shown = " waits for ".join(map(repr, circle))
        super().__init__(f"nodes of a flow wait for each other: {shown}")
        self.circle = tuple(circle)

    def __reduce__(self) -> tuple[type[FlowCycle], tuple[tuple[str, ...]]]:
        return type(self), (self.circle,)


class FlowNotSucceeded(HoldfastError):
    """A result was asked of a flow that has none."""

    verb = "has no result"

    def __init__(self, flow_id: str, why: str = "") -> None:
        super().__init__(f"flow {flow_id} {self.verb}" + (f": {why}" if why else ""))
        self.flow_id = flow_id
        self.why = why

    def __reduce__(self) -> tuple[type[FlowNotSucceeded], tuple[str, str]]:
        return type(self), (self.flow_id, self.why)


class FlowFailed(FlowNotSucceeded):
    """A node whose end counts has failed, expired, or was skipped for such a reason."""

    verb = "failed"


class FlowCancelled(FlowNotSucceeded):
    """Somebody cancelled the flow."""

    verb = "was cancelled"


class FlowTimeout(HoldfastError, TimeoutError):
    """The flow has not ended in the time given. It goes on."""

    def __init__(self, flow_id: str, seconds: float) -> None:
        super().__init__(f"flow {flow_id} has not ended after {seconds:g} s; it goes on")
        self.flow_id = flow_id
        self.seconds = seconds

    def __reduce__(self) -> tuple[type[FlowTimeout], tuple[str, float]]:
        return type(self), (self.flow_id, self.seconds)


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


class Refused(HoldfastError):
    """An operation that the job's state does not allow; nothing was changed."""


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


class NotFilledIn(HoldfastError, AttributeError):
    """A resource is used where no worker has filled it in: its function was called plainly."""

    def __init__(self, resource: str) -> None:
        super().__init__(
            f"{resource} is filled in by a worker: pass a value for it when you call the function "
            "yourself, or use harness.run(...)"
        )
        self.resource = resource

    def __reduce__(self) -> tuple[type[NotFilledIn], tuple[str]]:
        return type(self), (self.resource,)


class NoTransaction(HoldfastError):
    """A verb was to join the caller's transaction, and there is none that is open."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}: nothing was done; {advice}")

    @classmethod
    def not_begun(cls, begin: str) -> NoTransaction:
        """The driver would commit each statement by itself."""
        return cls(
            "the connection commits every statement by itself, so there is no transaction to join",
            f"begin one ({begin}), or leave the connection out",
        )

    @classmethod
    def block_ended(cls) -> NoTransaction:
        """A task or thread that was started inside the block has outlived it."""
        return cls(
            "this code was started inside a block 'app.within(connection)' that has ended since",
            "wait for it before the block ends, or let it use task.using(connection=None)",
        )


class NotOpen(HoldfastError):
    """The app is used before `async with app` or after it."""

    def __init__(
        self,
        problem: str = "the app is not open: use it inside 'async with app:', or call "
        "enqueue_sync, result_sync or a verb of app.sync, which need no event loop",
    ) -> None:
        super().__init__(problem)

    @classmethod
    def meanwhile(cls) -> NotOpen:
        return cls("the app was closed, or its event loop ended, before the call was answered")


class AlreadyOpen(HoldfastError):
    """Another store is asked for while the app has one open."""

    def __init__(self) -> None:
        super().__init__(
            "the app is open, and would go on with its old store: begin using_store or a Harness "
            "before 'async with app:' and the other Harness of this app begin, or after they have "
            "ended"
        )


class WrongLoop(HoldfastError):
    """The app is used in an event loop that it does not serve."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}: {advice}")

    @classmethod
    def of_another(cls) -> WrongLoop:
        return cls(
            "the app is open in another event loop",
            "call enqueue_sync or run_sync here, which serve every thread, or use an App that "
            "is opened in this loop",
        )

    @classmethod
    def on_its_own_thread(cls) -> WrongLoop:
        return cls(
            "a synchronous call in the thread of the app's own event loop would block that loop",
            "await enqueue, result or a verb of app.client here; call plain code that must not "
            "wait by 'await asyncio.to_thread(f)'",
        )

    @classmethod
    def for_run_worker(cls) -> WrongLoop:
        return cls(
            "run_worker starts an event loop, and this thread runs one already",
            "'async with app.worker(…) as worker: await worker.run()'",
        )

    @classmethod
    def inside_run_sync(cls) -> WrongLoop:
        return cls(
            "a synchronous call inside run_sync would wait for itself",
            "await the verbs of the client that run_sync hands over",
        )


class WorkerStalled(HoldfastError):
    """The worker cannot reach its store and ends, so that its supervisor starts it again. It does
    not end while it holds something that would be lost, such as an end that is not written."""

    def __init__(self, seconds: float, says: str) -> None:
        super().__init__(
            f"the store has not answered for {seconds:.1f} s, more than two leases: the worker "
            "leaves; check the store and the network, then start it again"
            + (f" (its last words: {says})" if says else "")
        )


class WorkerFrozen(HoldfastError):
    """A handler blocked the event loop for longer than `max_block`, so the worker was given up."""

    def __init__(self, seconds: float, limit: float) -> None:
        super().__init__(
            f"the event loop did not turn for {seconds:.1f} s, more than max_block ({limit:g} s): "
            "its jobs were handed on and the worker leaves; the event worker.loop_frozen says "
            "where it stood; make that handler a plain 'def', which runs in a thread"
        )


class SlotsLost(HoldfastError):
    """Handlers that did not stop hold so many slots that the worker ends, to be started again."""

    def __init__(self, queue: str, stuck: int, slots: int) -> None:
        super().__init__(
            f"queue {queue!r}: handlers that went on after their time hold {stuck} of {slots} "
            "slots or threads: the worker leaves, start it again; let coroutines end when they are "
            "cancelled, and run plain functions that may hang with process=True"
        )
        self.queue = queue


class StoreError(HoldfastError):
    """Something about the store itself."""


class StoreUnavailable(StoreError):
    """The store cannot be reached now; the same call may succeed later."""


class PartlyInserted(StoreError):
    """A store took some jobs of one call and refused the others.

    `answers` has one entry for each job, in the order given: `Inserted` if the job was written,
    None if it was refused. Jobs after the last entry were not tried. The same jobs may be inserted
    again under their ids: a job that was written is not added twice.
    """

    def __init__(self, answers: Sequence[Any], reason: StoreError) -> None:
        stand = sum(answer is not None for answer in answers)
        super().__init__(
            f"{stand} of {len(answers)} jobs were written and stand, the others were not: {reason}"
        )
        self.answers = tuple(answers)
        self.reason = reason


class StoreFull(StoreUnavailable):
    """The server answers, but has no connection left to give."""

    def __init__(self, where: str, answer: str) -> None:
        super().__init__(
            f"{where} has no room for another connection: {answer}; close some, raise "
            "max_connections, or put a pooler in front of it"
        )


class StoreRefuses(StoreError):
    """The store answers, but rights, schema or memory keep it from serving this program until
    somebody mends the store. The call itself was not at fault. A running worker waits."""


class AccessRefused(StoreRefuses):
    """The store refuses the login, or lacks a grant for what this program does."""


class RowRefused(StoreError):
    """The store cannot hold one of the values that it was sent: the value is too large, or has no
    form in the store. The same call would always fail; the other rows of the call are sound."""


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
