"""The words for what an operator can do: a noun, a verb, a target.

`explain` and `doctor` name a remedy as an `Action`. The command line turns an action into the
command to type, a web page turns it into a button. How a verb is carried out is said in
`holdfast.operations.verbs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Noun(StrEnum):
    """What a verb is applied to."""

    JOBS = "jobs"
    QUEUES = "queues"
    TASKS = "tasks"
    SCHEDULES = "schedules"
    FLOWS = "flows"
    WORKERS = "workers"
    OPERATIONS = "operations"
    FAILURES = "failures"
    LIMITS = "limits"
    BOOKS = "books"


class Verb(StrEnum):
    """What an operator can do. A verb has the name of the client's method."""

    CANCEL = "cancel"
    REQUEUE = "requeue"
    RETRY = "retry"
    RESCHEDULE = "reschedule"
    RESUME = "resume"
    MOVE = "move"
    REPRIORITISE = "reprioritise"
    DELETE = "delete"
    PAUSE = "pause"
    TUNE = "tune"
    CREATE = "create"
    EDIT = "edit"
    TRIGGER = "trigger"
    BACKFILL = "backfill"
    START = "start"
    DRAIN = "drain"
    STOP = "stop"
    GO_ON = "go_on"
    UNDO = "undo"
    CORRECT = "correct"
    REVEAL = "reveal"
    SIGNAL = "signal"
    ANSWER = "answer"
    MUTE = "mute"
    UNMUTE = "unmute"
    NOTE = "note"
    SET = "set"
    RETIRE = "retire"
    WEIGH = "weigh"
    TOP_UP = "top_up"
    RESET = "reset"


class Action(msgspec.Struct, frozen=True):
    """One thing to do: `verb`, applied to `target` or to every job that `which` selects.

    `target` is the id of a job or worker, or the name of a queue, schedule, limit or worker.
    `which` holds words of a job filter; of a limit, its `key`, or `create` for one that is not
    defined. `value` is what the verb takes beside its target: the queue to move to, the new
    priority, the delay in seconds, the node of a flow, the name of a signal. For a worker to start,
    `target` is the queue that it must serve, and `value` its labels. For a queue to tune, `value`
    is the setting.
    """

    noun: Noun
    verb: Verb
    target: str = ""
    which: Mapping[str, str] = {}
    value: str | float | None = None


START_WORKER = Action(Noun.WORKERS, Verb.START)
