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
    ├── StepFailed            a step of a job has failed, now or in an earlier attempt
    ├── StepRefused           a step that cannot be recorded
    ├── CallFailed            a job or flow that a handler called ended badly
    ├── StreamRefused         a frame that cannot be written
    ├── WaitTimedOut          a signal did not come in the time given
    ├── BadSignal             a signal's value does not fit the type waited for
    ├── SignalsFull           a job that can take no more signals
    ├── AnswerRefused         the answer of a person does not count
    ├── Denied                people who were asked have not granted it
    ├── ChildRaised           a function in a child process raised, as hooks around it see that
    ├── ProgramNotStarted     the program of a command or pool could not be started
    ├── CommandFailed         the program of a command did not end well
    ├── ResultTimeout         the job has not ended in the time given
    ├── Refused               an operation that the job's state does not allow
    ├── Outrun                a newer attempt has written what lies outside of the store
    ├── FenceTableMissing     the user's database has no table of fences
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

from holdfast.errors.base import (
    BadOption,
    HoldfastError,
    Refused,
)
from holdfast.errors.flows import (
    BadFlow,
    FlowCancelled,
    FlowCycle,
    FlowFailed,
    FlowNotSucceeded,
    FlowTimeout,
)
from holdfast.errors.jobs import (
    ChildRaised,
    FenceTableMissing,
    IdTaken,
    IllegalMove,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotSucceeded,
    JobSkipped,
    KeyHeld,
    NoKey,
    Outrun,
    ResultTimeout,
    Undecipherable,
    Unreadable,
)
from holdfast.errors.program import (
    AlreadyOpen,
    NotOpen,
    NoTransaction,
    SlotsLost,
    WorkerFrozen,
    WorkerStalled,
    WrongLoop,
)
from holdfast.errors.steps import (
    AnswerRefused,
    BadSignal,
    CallFailed,
    Denied,
    SignalsFull,
    StepFailed,
    StepRefused,
    StreamRefused,
    WaitTimedOut,
)
from holdfast.errors.store import (
    AccessRefused,
    NotCapable,
    PartlyInserted,
    RowRefused,
    SchemaMissing,
    SchemaOutdated,
    SchemaTampered,
    SchemaTooNew,
    StoreError,
    StoreFull,
    StoreRefuses,
    StoreUnavailable,
)
from holdfast.errors.tasks import (
    BadArguments,
    BadImport,
    BadResult,
    BadTask,
    CommandFailed,
    NotFilledIn,
    NotIncluded,
    PayloadTooLarge,
    ProgramNotStarted,
)
from holdfast.errors.unknown import (
    UnknownFailure,
    UnknownFlow,
    UnknownJob,
    UnknownOperation,
    UnknownSchedule,
    UnknownTask,
    UnknownWorker,
)

__all__ = [
    "AccessRefused",
    "AlreadyOpen",
    "AnswerRefused",
    "BadArguments",
    "BadFlow",
    "BadImport",
    "BadOption",
    "BadResult",
    "BadSignal",
    "BadTask",
    "CallFailed",
    "ChildRaised",
    "CommandFailed",
    "Denied",
    "FenceTableMissing",
    "FlowCancelled",
    "FlowCycle",
    "FlowFailed",
    "FlowNotSucceeded",
    "FlowTimeout",
    "HoldfastError",
    "IdTaken",
    "IllegalMove",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobNotSucceeded",
    "JobSkipped",
    "KeyHeld",
    "NoKey",
    "NoTransaction",
    "NotCapable",
    "NotFilledIn",
    "NotIncluded",
    "NotOpen",
    "Outrun",
    "PartlyInserted",
    "PayloadTooLarge",
    "ProgramNotStarted",
    "Refused",
    "ResultTimeout",
    "RowRefused",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTampered",
    "SchemaTooNew",
    "SignalsFull",
    "SlotsLost",
    "StepFailed",
    "StepRefused",
    "StoreError",
    "StoreFull",
    "StoreRefuses",
    "StoreUnavailable",
    "StreamRefused",
    "Undecipherable",
    "UnknownFailure",
    "UnknownFlow",
    "UnknownJob",
    "UnknownOperation",
    "UnknownSchedule",
    "UnknownTask",
    "UnknownWorker",
    "Unreadable",
    "WaitTimedOut",
    "WorkerFrozen",
    "WorkerStalled",
    "WrongLoop",
]

# A traceback, a pickle and the names of `Retry(on=…)` say the place that users import from.
for _name in __all__:
    globals()[_name].__module__ = __name__
