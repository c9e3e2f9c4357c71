"""Holdfast: a durable job queue, cron scheduler and flow engine.

Everything public is named here; whatever is not may change without notice.
"""

from holdfast.app import App
from holdfast.client import Client
from holdfast.context import AttemptLost, Context
from holdfast.ends import Fail, Snooze, Suspend, Throttled
from holdfast.errors import (
    AccessRefused,
    BadArguments,
    BadOption,
    BadResult,
    BadTask,
    HoldfastError,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotSucceeded,
    JobSkipped,
    NotCapable,
    NotOpen,
    PayloadTooLarge,
    Refused,
    ResultTimeout,
    RowRefused,
    SchemaMissing,
    SchemaOutdated,
    SchemaTampered,
    SchemaTooNew,
    StoreError,
    StoreRefuses,
    StoreUnavailable,
    UnknownJob,
    UnknownSchedule,
    UnknownTask,
    WorkerFrozen,
    WorkerStalled,
)
from holdfast.events import Event
from holdfast.insights import Explanation, Reason, Who
from holdfast.job import Job, JobId, JobState, Retention
from holdfast.options import UniqueBy
from holdfast.plan import (
    CatchUp,
    Decision,
    Definition,
    LedgerEntry,
    OnCrash,
    Overlap,
    Schedule,
)
from holdfast.retry import Retry
from holdfast.selection import BulkReport
from holdfast.task import JobHandle, Task

__version__ = "0.1.0"

__all__ = [
    "AccessRefused",
    "App",
    "AttemptLost",
    "BadArguments",
    "BadOption",
    "BadResult",
    "BadTask",
    "BulkReport",
    "CatchUp",
    "Client",
    "Context",
    "Decision",
    "Definition",
    "Event",
    "Explanation",
    "Fail",
    "HoldfastError",
    "Job",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobHandle",
    "JobId",
    "JobNotSucceeded",
    "JobSkipped",
    "JobState",
    "LedgerEntry",
    "NotCapable",
    "NotOpen",
    "OnCrash",
    "Overlap",
    "PayloadTooLarge",
    "Reason",
    "Refused",
    "ResultTimeout",
    "Retention",
    "Retry",
    "RowRefused",
    "Schedule",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTampered",
    "SchemaTooNew",
    "Snooze",
    "StoreError",
    "StoreRefuses",
    "StoreUnavailable",
    "Suspend",
    "Task",
    "Throttled",
    "UniqueBy",
    "UnknownJob",
    "UnknownSchedule",
    "UnknownTask",
    "Who",
    "WorkerFrozen",
    "WorkerStalled",
]
