"""The verbs of operators, in one table for the client, the command line, HTTP and the audit.

`VERBS` has a row for everything that an operator can do. A row says what the verb takes, whether it
applies to one thing or to many, which verb undoes it, whether what it removes is gone for good, and
what a principal must be allowed. Its `word` is what the audit calls it.

The rows on jobs, which also say how jobs are changed, are in `job_verbs.py`.

A row on a queue, a task or a schedule that has a `change` applies to one name. A verb that takes
more than one value (`jobs.edit`, `jobs.signal`, `jobs.answer`, `queues.tune`, `limits.set`,
`limits.weigh`, `limits.drain`, `limits.top_up`, `limits.reset`, `schedules.create`, `edit`,
`trigger`, `backfill`), or that changes nothing (`jobs.reveal`), is carried out by the client's
method of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from holdfast.insights.actions import Noun, Verb
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.operations.rows import NameVerb, OperatorVerb, Parameter, Scope
from holdfast.store.contract.queues import jobs_of

_NAME_ROWS = (
    NameVerb(
        noun=Noun.QUEUES,
        verb=Verb.PAUSE,
        about="Stop claims from queues; running jobs go on.",
        done="paused",
        change=lambda store, names: store.queues.pause(names),
        many=True,
        undo=Verb.RESUME,
    ),
    NameVerb(
        noun=Noun.QUEUES,
        verb=Verb.RESUME,
        about="Allow claims again, and end any cool-down.",
        done="resumed",
        change=lambda store, names: store.queues.resume(names),
        many=True,
        undo=Verb.PAUSE,
    ),
    NameVerb(
        noun=Noun.TASKS,
        verb=Verb.PAUSE,
        about="Stop claims of jobs of these tasks, in every queue; running jobs go on.",
        done="paused",
        change=lambda store, names: store.queues.pause([jobs_of(name) for name in names]),
        undo=Verb.RESUME,
    ),
    NameVerb(
        noun=Noun.TASKS,
        verb=Verb.RESUME,
        about="Allow claims of jobs of these tasks again.",
        done="resumed",
        change=lambda store, names: store.queues.resume([jobs_of(name) for name in names]),
        undo=Verb.PAUSE,
    ),
    NameVerb(
        noun=Noun.SCHEDULES,
        verb=Verb.PAUSE,
        about="Record plans as skipped instead of firing them.",
        done="paused",
        change=lambda store, names: store.schedules.pause(names),
        undo=Verb.RESUME,
    ),
    NameVerb(
        noun=Noun.SCHEDULES,
        verb=Verb.RESUME,
        about="Fire plans again; plans of the pause are not made up for.",
        done="resumed",
        change=lambda store, names: store.schedules.resume(names),
        undo=Verb.PAUSE,
    ),
    NameVerb(
        noun=Noun.SCHEDULES,
        verb=Verb.DELETE,
        about="Remove schedules with their history; jobs they started stay.",
        done="deleted",
        change=lambda store, names: store.schedules.delete(names),
        danger=True,
    ),
)
NAME_VERBS: Mapping[tuple[Noun, Verb], NameVerb] = {(row.noun, row.verb): row for row in _NAME_ROWS}

_METHOD_ROWS = (
    OperatorVerb(
        noun=Noun.JOBS,
        verb=Verb.EDIT,
        about="Change arguments or tags of a waiting job.",
        done="edited",
        arguments=(
            Parameter("args", "Arguments by name; those not named stay.", dict),
            Parameter("tags", "All its tags from now on.", list),
        ),
    ),
    OperatorVerb(
        noun=Noun.JOBS,
        verb=Verb.REVEAL,
        about="Show a job with everything that is hidden.",
        done="revealed",
        arguments=(Parameter("reason", "Why.", str),),
        scope=Scope.ADMIN,
    ),
    OperatorVerb(
        noun=Noun.JOBS,
        verb=Verb.SIGNAL,
        about="Send a signal to a live job, which may wait for it.",
        done="sent a signal",
        arguments=(
            Parameter("name", "Which signal.", str),
            Parameter("value", "Any JSON.", object),
            Parameter("key", "Of several signals with one key the first counts.", str),
        ),
    ),
    OperatorVerb(
        noun=Noun.JOBS,
        verb=Verb.ANSWER,
        about="Give the vote of a person whom a job has asked.",
        done="answered",
        arguments=(
            Parameter("token", "What the person was sent.", str),
            Parameter("answer", "Whether to approve, and a note.", dict),
        ),
    ),
    OperatorVerb(
        noun=Noun.QUEUES,
        verb=Verb.TUNE,
        about="Change settings of a queue.",
        done="tuned",
        arguments=(Parameter("changes", "Settings by name.", dict),),
    ),
    OperatorVerb(
        noun=Noun.SCHEDULES,
        verb=Verb.CREATE,
        about="Add a schedule at run time.",
        done="created",
        arguments=(Parameter("definition", "Its task, its rule and the rest.", dict),),
        undo=Verb.DELETE,
    ),
    OperatorVerb(
        noun=Noun.SCHEDULES,
        verb=Verb.EDIT,
        about="Change a schedule or its rule.",
        done="edited",
        arguments=(Parameter("changes", "Fields by name.", dict),),
    ),
    OperatorVerb(
        noun=Noun.SCHEDULES,
        verb=Verb.TRIGGER,
        about="Start a job of the schedule now.",
        done="triggered",
        arguments=(Parameter("scope", "For which scope.", str),),
    ),
    OperatorVerb(
        noun=Noun.SCHEDULES,
        verb=Verb.BACKFILL,
        about="Fire plans of the past that have not fired.",
        done="backfilled",
        arguments=(
            Parameter("since", "From this time on.", datetime),
            Parameter("until", "Up to this time.", datetime),
            Parameter("scopes", "Only these scopes.", list),
            Parameter("cap", "At most so many.", int),
            Parameter("forgotten", "Also plans that may have fired.", bool),
        ),
    ),
    OperatorVerb(
        noun=Noun.WORKERS,
        verb=Verb.DRAIN,
        about="Tell workers to claim no more, finish what runs, and leave.",
        done="told to leave",
    ),
    OperatorVerb(
        noun=Noun.FLOWS,
        verb=Verb.CANCEL,
        about="Cancel the nodes of a live flow: all, those that wait, or those that are blocked.",
        done="cancelled",
        arguments=(Parameter("what", "all, waiting or blocked.", str),),
        undo=Verb.RETRY,
    ),
    OperatorVerb(
        noun=Noun.FLOWS,
        verb=Verb.PAUSE,
        about="Release nothing more of a running flow; what is ready goes on.",
        done="paused",
        undo=Verb.RESUME,
    ),
    OperatorVerb(
        noun=Noun.FLOWS,
        verb=Verb.RESUME,
        about="Let a paused flow go on.",
        done="resumed",
        undo=Verb.PAUSE,
    ),
    OperatorVerb(
        noun=Noun.FLOWS,
        verb=Verb.RETRY,
        about="Run failed nodes of a flow again, and what was skipped because of them.",
        done="retried",
        arguments=(Parameter("nodes", "Which nodes; without, those that failed.", list),),
        undo=Verb.CANCEL,
    ),
    OperatorVerb(
        noun=Noun.OPERATIONS,
        verb=Verb.STOP,
        about="Stop an operation before its next page.",
        done="stopped",
        undo=Verb.GO_ON,
    ),
    OperatorVerb(
        noun=Noun.OPERATIONS,
        verb=Verb.GO_ON,
        about="Let an operation run that was stopped, or that waits after its canary.",
        done="allowed to go on",
        undo=Verb.STOP,
    ),
    OperatorVerb(
        noun=Noun.OPERATIONS,
        verb=Verb.UNDO,
        about="Begin the operation that takes this one back.",
        done="being undone",
        arguments=(Parameter("reason", "Why.", str),),
    ),
    OperatorVerb(
        noun=Noun.FAILURES,
        verb=Verb.MUTE,
        about="Hide failures for a while: nobody wants to hear of them.",
        done="muted",
        arguments=(Parameter("until", "Until this time.", datetime),),
        undo=Verb.UNMUTE,
    ),
    OperatorVerb(
        noun=Noun.FAILURES,
        verb=Verb.UNMUTE,
        about="Show muted failures again.",
        done="unmuted",
        undo=Verb.MUTE,
    ),
    OperatorVerb(
        noun=Noun.FAILURES,
        verb=Verb.NOTE,
        about="Write a note on a failure, for whoever looks next.",
        done="noted",
        arguments=(Parameter("note", "The note; none removes it.", str),),
    ),
    OperatorVerb(
        noun=Noun.LIMITS,
        verb=Verb.SET,
        about="Change a limit, or one key of it; what runs goes on.",
        done="set",
        arguments=(
            Parameter("key", "Which key; without, the limit itself.", str),
            Parameter("most", "How many jobs may run at once, or begin in a window.", int),
            Parameter("per", "The window of a rate, in seconds.", float),
            Parameter("burst", "How many permits of a rate may be saved.", int),
            Parameter("hard", "How much of a budget may be spent.", int),
            Parameter("soft", "From where on it is told that a budget is nearly spent.", int),
            Parameter("every", "When a budget begins anew: hour, day, month or seconds.", str),
            Parameter("timezone", "Whose midnight that is.", str),
            Parameter("on_failure", "Whether failures are charged: refund or charge.", str),
            Parameter("create", "Whether to make a limit that is not defined.", bool),
        ),
    ),
    OperatorVerb(
        noun=Noun.LIMITS,
        verb=Verb.WEIGH,
        about="Let the jobs of a key of fairness have more or fewer turns.",
        done="weighed",
        arguments=(Parameter("weight", "Turns beside those of others; none: as jobs say.", int),),
    ),
    OperatorVerb(
        noun=Noun.LIMITS,
        verb=Verb.TOP_UP,
        about="Let more be spent of a budget in its period.",
        done="topped up",
        arguments=(
            Parameter("key", "Which key.", str),
            Parameter("amount", "How much more; less if below 0.", int),
        ),
    ),
    OperatorVerb(
        noun=Noun.LIMITS,
        verb=Verb.RESET,
        about="Let a budget forget what was spent, or a rate what has begun.",
        done="reset",
        arguments=(Parameter("key", "Which key.", str),),
    ),
    OperatorVerb(
        noun=Noun.LIMITS,
        verb=Verb.DRAIN,
        about="Let nothing begin through a bucket for a while; 0 opens it.",
        done="shut",
        arguments=(
            Parameter("key", "Which key.", str),
            Parameter("seconds", "For how long.", float),
        ),
    ),
    OperatorVerb(
        noun=Noun.LIMITS,
        verb=Verb.RETIRE,
        about="Let a limit hold nothing up any more.",
        done="retired",
    ),
    OperatorVerb(
        noun=Noun.FLOWS,
        verb=Verb.CORRECT,
        about="Make the counts of a flow what its graph says: the doctor's `fix`.",
        done="corrected",
    ),
    OperatorVerb(
        noun=Noun.BOOKS,
        verb=Verb.CORRECT,
        about="Recount all jobs and correct the books: the doctor's `fix`.",
        done="corrected",
    ),
)

VERBS: Mapping[tuple[Noun, Verb], OperatorVerb] = {
    (row.noun, row.verb): row for row in (*JOB_VERBS.values(), *_NAME_ROWS, *_METHOD_ROWS)
}
"""Everything that an operator can do."""
