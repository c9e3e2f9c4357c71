"""What the verbs on jobs are called on the command line.

A command has the name of its verb, except where people have a shorter word: `retry` is the client's
`requeue`, and `run-now` is `reschedule` with a delay of 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.insights.actions import Verb
from holdfast.operations.job_verbs import JOB_VERBS, REQUEUE, RESCHEDULE
from holdfast.operations.rows import JobVerb


class JobCommand(msgspec.Struct, frozen=True):
    """One command of `holdfast jobs`. It passes `value` to its verb; a verb that takes a value
    and has none here gets the option `--to`."""

    row: JobVerb
    word: str
    about: str
    done: str
    value: object = None

    @property
    def asks_value(self) -> bool:
        return self.row.parameter is not None and self.value is None

    def with_value(self, value: object) -> JobCommand:
        return msgspec.structs.replace(self, value=value, done=f"{self.done} to {value}")


def _named_as(row: JobVerb) -> JobCommand:
    return JobCommand(row, str(row.verb), row.about, row.done)


JOB_COMMANDS: Mapping[Verb, JobCommand] = {
    **{verb: _named_as(row) for verb, row in JOB_VERBS.items()},
    Verb.REQUEUE: JobCommand(REQUEUE, "retry", REQUEUE.about, REQUEUE.done),
    Verb.RESCHEDULE: JobCommand(
        RESCHEDULE, "run-now", "Make scheduled jobs ready now.", "made ready", value=0
    ),
}
