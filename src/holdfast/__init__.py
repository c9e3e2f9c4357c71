"""Holdfast: a durable job queue, cron scheduler and flow engine.

Everything public is named here; whatever is not may change without notice.

A name is imported when it is first used, so that a program pays only for what it uses: a program
that only enqueues never imports the worker. Type checkers and editors read the imports below,
Python reads `_HOMES`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client.client import Client
    from holdfast.client.flow_handle import FlowHandle
    from holdfast.client.operations import Preview
    from holdfast.client.selection import BulkReport
    from holdfast.client.sync import SyncClient
    from holdfast.context.context import Context
    from holdfast.context.current import CurrentJob, current_job
    from holdfast.context.link import AttemptLost
    from holdfast.declaring.flows import Flow
    from holdfast.declaring.nodes import Node, all_of, any_of, ended, failed, quorum
    from holdfast.declaring.tasks import Tasks
    from holdfast.encryption.keyring import Keyring
    from holdfast.errors import (
        AccessRefused,
        AlreadyOpen,
        AnswerRefused,
        BadArguments,
        BadFlow,
        BadImport,
        BadOption,
        BadResult,
        BadSignal,
        BadTask,
        CallFailed,
        ChildRaised,
        CommandFailed,
        Denied,
        FenceTableMissing,
        FlowCancelled,
        FlowCycle,
        FlowFailed,
        FlowNotSucceeded,
        FlowTimeout,
        HoldfastError,
        IdTaken,
        JobCancelled,
        JobExpired,
        JobFailed,
        JobNotSucceeded,
        JobSkipped,
        KeyHeld,
        NoKey,
        NotCapable,
        NotFilledIn,
        NotIncluded,
        NotOpen,
        NoTransaction,
        Outrun,
        PartlyInserted,
        PayloadTooLarge,
        ProgramNotStarted,
        Refused,
        ResultTimeout,
        RowRefused,
        SchemaMissing,
        SchemaOutdated,
        SchemaTampered,
        SchemaTooNew,
        SignalsFull,
        SlotsLost,
        StepFailed,
        StepRefused,
        StoreError,
        StoreFull,
        StoreRefuses,
        StoreUnavailable,
        StreamRefused,
        Undecipherable,
        UnknownFailure,
        UnknownFlow,
        UnknownJob,
        UnknownOperation,
        UnknownSchedule,
        UnknownTask,
        UnknownWorker,
        Unreadable,
        WaitTimedOut,
        WorkerFrozen,
        WorkerStalled,
        WrongLoop,
    )
    from holdfast.events import Event
    from holdfast.flow.model import FlowState
    from holdfast.handle import JobHandle
    from holdfast.handlers.programs import CommandOutput
    from holdfast.hooks import Enqueue
    from holdfast.insights.actions import Action
    from holdfast.insights.explain import Explanation
    from holdfast.insights.key_use import KeyStatus, KeyUse
    from holdfast.insights.life import Life, Moment
    from holdfast.insights.reasons import Reason, Who
    from holdfast.job.ends import Cancel, Fail, Skip, Snooze, Suspend, Throttled, TryAgain
    from holdfast.job.ids import JobId
    from holdfast.job.policy import Retention
    from holdfast.job.record import Job
    from holdfast.job.retry import Retry
    from holdfast.job.secret import Secret
    from holdfast.job.signal import Sent
    from holdfast.job.state import JobState
    from holdfast.job.stream import Frame
    from holdfast.job.unique import UniqueBy
    from holdfast.job.vote import Approval, Vote
    from holdfast.limits.definition import Limit
    from holdfast.limits.model import Budget, Concurrency, Rate
    from holdfast.resources import Depends, Shared
    from holdfast.schedule.model import (
        CatchUp,
        Decision,
        Definition,
        LedgerEntry,
        OnCrash,
        Overlap,
        Schedule,
    )
    from holdfast.steps.approvals import Invitation
    from holdfast.steps.streams import Stream, SyncStream
    from holdfast.store.contract.audit import ActOutcome, AuditEntry
    from holdfast.store.contract.failures import Failure
    from holdfast.store.contract.operations import Operation, OperationState
    from holdfast.task import Task
    from holdfast.worker.slots import Slots

__version__ = "0.1.0"

__all__ = [
    "AccessRefused",
    "ActOutcome",
    "Action",
    "AlreadyOpen",
    "AnswerRefused",
    "App",
    "Approval",
    "AttemptLost",
    "AuditEntry",
    "BadArguments",
    "BadFlow",
    "BadImport",
    "BadOption",
    "BadResult",
    "BadSignal",
    "BadTask",
    "Budget",
    "BulkReport",
    "CallFailed",
    "Cancel",
    "CatchUp",
    "ChildRaised",
    "Client",
    "CommandFailed",
    "CommandOutput",
    "Concurrency",
    "Context",
    "CurrentJob",
    "Decision",
    "Definition",
    "Denied",
    "Depends",
    "Enqueue",
    "Event",
    "Explanation",
    "Fail",
    "Failure",
    "FenceTableMissing",
    "Flow",
    "FlowCancelled",
    "FlowCycle",
    "FlowFailed",
    "FlowHandle",
    "FlowNotSucceeded",
    "FlowState",
    "FlowTimeout",
    "Frame",
    "HoldfastError",
    "IdTaken",
    "Invitation",
    "Job",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobHandle",
    "JobId",
    "JobNotSucceeded",
    "JobSkipped",
    "JobState",
    "KeyHeld",
    "KeyStatus",
    "KeyUse",
    "Keyring",
    "LedgerEntry",
    "Life",
    "Limit",
    "Moment",
    "NoKey",
    "NoTransaction",
    "Node",
    "NotCapable",
    "NotFilledIn",
    "NotIncluded",
    "NotOpen",
    "OnCrash",
    "Operation",
    "OperationState",
    "Outrun",
    "Overlap",
    "PartlyInserted",
    "PayloadTooLarge",
    "Preview",
    "ProgramNotStarted",
    "Rate",
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
    "Secret",
    "Sent",
    "Shared",
    "SignalsFull",
    "Skip",
    "Slots",
    "SlotsLost",
    "Snooze",
    "StepFailed",
    "StepRefused",
    "StoreError",
    "StoreFull",
    "StoreRefuses",
    "StoreUnavailable",
    "Stream",
    "StreamRefused",
    "Suspend",
    "SyncClient",
    "SyncStream",
    "Task",
    "Tasks",
    "Throttled",
    "TryAgain",
    "Undecipherable",
    "UniqueBy",
    "UnknownFailure",
    "UnknownFlow",
    "UnknownJob",
    "UnknownOperation",
    "UnknownSchedule",
    "UnknownTask",
    "UnknownWorker",
    "Unreadable",
    "Vote",
    "WaitTimedOut",
    "Who",
    "WorkerFrozen",
    "WorkerStalled",
    "WrongLoop",
    "all_of",
    "any_of",
    "current_job",
    "ended",
    "failed",
    "quorum",
]

_HOMES = {
    "holdfast.app": ("App",),
    "holdfast.client.client": ("Client",),
    "holdfast.client.operations": ("Preview",),
    "holdfast.client.selection": ("BulkReport",),
    "holdfast.client.sync": ("SyncClient",),
    "holdfast.context.context": ("Context",),
    "holdfast.context.current": ("CurrentJob", "current_job"),
    "holdfast.context.link": ("AttemptLost",),
    "holdfast.client.flow_handle": ("FlowHandle",),
    "holdfast.declaring.flows": ("Flow",),
    "holdfast.declaring.nodes": ("Node", "all_of", "any_of", "ended", "failed", "quorum"),
    "holdfast.declaring.tasks": ("Tasks",),
    "holdfast.events": ("Event",),
    "holdfast.flow.model": ("FlowState",),
    "holdfast.handlers.programs": ("CommandOutput",),
    "holdfast.hooks": ("Enqueue",),
    "holdfast.insights.actions": ("Action",),
    "holdfast.insights.explain": ("Explanation",),
    "holdfast.insights.life": ("Life", "Moment"),
    "holdfast.insights.reasons": ("Reason", "Who"),
    "holdfast.job.ends": ("Cancel", "Fail", "Skip", "Snooze", "Suspend", "Throttled", "TryAgain"),
    "holdfast.job.ids": ("JobId",),
    "holdfast.job.policy": ("Retention",),
    "holdfast.job.record": ("Job",),
    "holdfast.job.retry": ("Retry",),
    "holdfast.job.secret": ("Secret",),
    "holdfast.job.signal": ("Sent",),
    "holdfast.job.vote": ("Approval", "Vote"),
    "holdfast.steps.approvals": ("Invitation",),
    "holdfast.steps.streams": ("Stream", "SyncStream"),
    "holdfast.job.state": ("JobState",),
    "holdfast.job.stream": ("Frame",),
    "holdfast.job.unique": ("UniqueBy",),
    "holdfast.encryption.keyring": ("Keyring",),
    "holdfast.insights.key_use": ("KeyStatus", "KeyUse"),
    "holdfast.limits.definition": ("Limit",),
    "holdfast.limits.model": ("Budget", "Concurrency", "Rate"),
    "holdfast.resources": ("Depends", "Shared"),
    "holdfast.schedule.model": (
        "CatchUp",
        "Decision",
        "Definition",
        "LedgerEntry",
        "OnCrash",
        "Overlap",
        "Schedule",
    ),
    "holdfast.store.contract.failures": ("Failure",),
    "holdfast.store.contract.operations": ("Operation", "OperationState"),
    "holdfast.store.contract.audit": ("ActOutcome", "AuditEntry"),
    "holdfast.handle": ("JobHandle",),
    "holdfast.task": ("Task",),
    "holdfast.worker.slots": ("Slots",),
}
"""Where each public name is defined. A name that is missing here is an error: `holdfast.errors`."""


if not TYPE_CHECKING:  # a type checker would take a `__getattr__` to have every name

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used. From then on Python finds it itself."""
        if name not in __all__:
            text = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=sys.modules[__name__])
        homes = (module for module, names in _HOMES.items() if name in names)
        value = getattr(import_module(next(homes, "holdfast.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
