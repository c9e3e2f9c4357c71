"""The job that a plan starts: the definition's task, arguments and options, with the scope and the
plan time filled in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.job.ids import new_job_id
from holdfast.job.line_rule import LineRule
from holdfast.job.record import NewJob
from holdfast.job.sealed import require_open
from holdfast.job.ties import Tie
from holdfast.schedule.model import Definition

SCHEDULE, SCOPE, PLAN = "holdfast-schedule", "holdfast-scope", "holdfast-plan"
"""Headers by which a handler learns why it runs: `ctx.job.headers["holdfast-scope"]`."""


class PlanJobs:
    """Makes the jobs of one schedule. The parts that all jobs share are decoded once."""

    def __init__(self, name: str, definition: Definition) -> None:
        self._name = name
        self._definition = definition
        require_open(definition.args)
        require_open(definition.headers or "")
        self._takes = bool(definition.scope_as or definition.plan_as)
        self._args: dict[str, Any] = msgspec.json.decode(definition.args) if self._takes else {}
        given = {} if definition.headers is None else msgspec.json.decode(definition.headers)
        self._headers: dict[str, str] = {**given, SCHEDULE: name}

    def job(self, scope: str, at: datetime) -> NewJob:
        chosen = self._definition
        headers = self._headers | {SCOPE: scope, PLAN: at.astimezone(UTC).isoformat()}
        args = self._arguments(scope, at) if self._takes else chosen.args
        job = NewJob(
            new_job_id(beside=self._name),  # in the partition of the schedule, for one transaction
            chosen.task,
            chosen.queue,
            args,
            chosen.policy,
            chosen.priority,
            deadline_in=chosen.deadline,
            tags=chosen.tags,
            headers=msgspec.json.encode(headers).decode(),
        )
        return job if chosen.line is None else _in_line(job, chosen.line)

    def _arguments(self, scope: str, at: datetime) -> str:
        given = dict(self._args)
        if self._definition.scope_as is not None:
            given[self._definition.scope_as] = scope
        if self._definition.plan_as is not None:
            given[self._definition.plan_as] = at
        return msgspec.json.encode(given).decode()


def _in_line(job: NewJob, line: LineRule) -> NewJob:
    buckets, costs = line.passed(job.task, msgspec.json.decode(job.args))
    return msgspec.structs.replace(
        job, ties=int(Tie.PERMITS), buckets=buckets, costs=costs, weight=line.weight
    )
