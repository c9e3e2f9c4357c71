"""Jobs as they may be shown to people: on the command line, on a page, in an export.

What is hidden is said in `holdfast.job.redaction`. Here it is asked for by task: of the program's
own code where there is some, and of the catalogue that workers publish. Of a job whose task is in
neither only the types of its values are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.flow.model import NodeInfo
from holdfast.insights.catalogue import Catalogue
from holdfast.job.call import FAILED, decode_failure, encode_recorded
from holdfast.job.record import ErrorEntry, Job, Progress
from holdfast.job.redaction import Redactor, Rules, redact
from holdfast.job.sealed import is_sealed
from holdfast.job.signal import Signal
from holdfast.job.step import Step
from holdfast.schedule.model import LedgerEntry, Schedule
from holdfast.store.contract.failures import Failure
from holdfast.store.contract.operations import Operation
from holdfast.store.contract.records import Page
from holdfast.store.contract.store import Store

if TYPE_CHECKING:
    from holdfast.handlers.registry import Handler
    from holdfast.insights.explain import Explanation
    from holdfast.insights.life import Life, Moment
    from holdfast.insights.overview import Overview


class Redaction:
    """Shows jobs of one store. `tasks` are those that this program knows."""

    def __init__(self, store: Store, tasks: Mapping[str, Handler] | None = None) -> None:
        self._store = store
        self._catalogue = Catalogue(store.shelf, tasks)

    async def job(self, job: Job) -> Job:
        """The same job, with everything that it may not show hidden."""
        [shown] = await self.jobs([job])
        return shown

    async def jobs(self, jobs: Sequence[Job]) -> list[Job]:
        rules = await self._catalogue.rules({job.task for job in jobs})
        return [shown_job(job, rules[job.task]) for job in jobs]

    async def page(self, page: Page) -> Page:
        return msgspec.structs.replace(page, jobs=tuple(await self.jobs(page.jobs)))

    async def explanation(self, explanation: Explanation) -> Explanation:
        job, show = explanation.job, (await self.redactor_of(explanation.job)).text
        reasons = [
            msgspec.structs.replace(reason, fact=show(reason.fact))
            for reason in explanation.reasons
        ]
        cause = None if explanation.cause is None else (await self.nodes([explanation.cause]))[0]
        return msgspec.structs.replace(
            explanation, job=await self.job(job), reasons=tuple(reasons), cause=cause
        )

    async def life(self, life: Life) -> Life:
        """What happened to a job."""
        redactor = await self.redactor_of(life.job)
        moments = tuple([_shown_moment(one, redactor) for one in life.moments])
        return msgspec.structs.replace(life, job=await self.job(life.job), moments=moments)

    async def steps(self, job: Job, steps: Sequence[Step]) -> list[Step]:
        """Steps of a job. Their results are shown as the checkpoint of a job is: no annotation
        marks what is secret in them, so names and patterns do."""
        redactor = await self.redactor_of(job)
        return [_shown_step(step, redactor) for step in steps]

    async def signals(self, job: Job, signals: Sequence[Signal]) -> list[Signal]:
        """Signals of a job. Their values are shown as the results of its steps."""
        redactor = await self.redactor_of(job)
        return [_shown_signal(signal, redactor) for signal in signals]

    async def nodes(self, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """A node whose reason may quote what its job carries is shown as the job is, with the
        reason of the node: it may say more than the end of the job does."""
        worded = {node.job_id: node.reason for node in nodes if node.reason is not None}
        found = await self._store.jobs.get([*worded]) if worded else []
        replace = msgspec.structs.replace
        shown = await self.jobs([replace(job, reason=worded[job.id]) for job in found])
        reasons = {job.id: job.reason for job in shown}
        return [replace(node, reason=reasons.get(node.job_id)) for node in nodes]

    async def failures(self, failures: Sequence[Failure]) -> list[Failure]:
        """Failures with their samples, each by the arguments of the job that it is of. If that job
        is gone, and its task hides arguments, nobody can say what the sample repeats: then the
        sample is not shown."""
        jobs = {job.id: job for job in await self._store.jobs.get([one.job_id for one in failures])}
        rules = await self._catalogue.rules({one.task for one in failures})
        return [_shown_failure(one, rules[one.task], jobs.get(one.job_id)) for one in failures]

    async def overview(self, overview: Overview) -> Overview:
        """Everything of the first page: of its parts only failures and operations quote jobs."""
        failures = await self.failures(overview.failures)
        operations = list(map(_shown_operation, overview.operations))
        return msgspec.structs.replace(overview, failures=failures, operations=operations)

    async def schedule(self, schedule: Schedule) -> Schedule:
        """The schedule without the secrets among the arguments and headers of its jobs."""
        definition, redactor = schedule.definition, await self._redactor_for(schedule)
        shown = msgspec.structs.replace(
            definition,
            args=redactor.args(),
            headers=redactor.headers(),
            tags=tuple(map(redactor.text, definition.tags)),
        )
        error = None if schedule.error is None else redactor.text(schedule.error)
        return msgspec.structs.replace(schedule, definition=shown, error=error)

    async def history(self, schedule: Schedule, rows: Sequence[LedgerEntry]) -> list[LedgerEntry]:
        """Rows of the ledger of a schedule, with the results and errors of their jobs."""
        redactor = await self._redactor_for(schedule)
        return [_shown_entry(row, redactor) for row in rows]

    async def _redactor_for(self, schedule: Schedule) -> Redactor:
        definition = schedule.definition
        return await self.redactor(definition.task, definition.args, definition.headers)

    async def redactor_of(self, job: Job) -> Redactor:
        """For texts about a job that stand elsewhere."""
        return await self.redactor(job.task, job.args_json, job.headers_json)

    async def redactor(self, task: str, args: str | None, headers: str | None = None) -> Redactor:
        """For the texts of a job of this task, with these arguments and headers as JSON."""
        return Redactor((await self._catalogue.rules([task]))[task], args, headers)


def shown_job(job: Job, rules: Rules) -> Job:
    """The job as it may be shown under these rules."""
    redactor = Redactor(rules, job.args_json, job.headers_json)
    show = redactor.text
    return msgspec.structs.replace(
        job,
        args_json=redactor.args(),
        headers_json=redactor.headers(),
        result_json=None if job.result_json is None else redactor.result(job.result_json),
        reason=None if job.reason is None else show(job.reason),
        unique_key=None if job.unique_key is None else show(job.unique_key),
        tags=tuple(map(show, job.tags)),
        progress=None if job.progress is None else _shown_progress(job.progress, redactor),
        errors=tuple(_shown_error(error, redactor) for error in job.errors),
    )


def _shown_moment(moment: Moment, redactor: Redactor) -> Moment:
    note, error = moment.note, moment.error
    return msgspec.structs.replace(
        moment,
        note=None if note is None else redactor.text(note),
        error=None if error is None else _shown_error(error, redactor),
    )


def _shown_step(step: Step, redactor: Redactor) -> Step:
    result, message = step.result_json, step.message
    if step.kind == FAILED:
        message = _without_message(message)
    return msgspec.structs.replace(
        step,
        result_json=None if result is None else redactor.json(result),
        message=None if message is None else redactor.text(message),
    )


def _without_message(failure: str | None) -> str | None:
    """What a called job said is shown by the rules of its own task, where that job is shown."""
    if failure is None or is_sealed(failure):
        return failure
    return encode_recorded(msgspec.structs.replace(decode_failure(failure), message=None))


def _shown_signal(signal: Signal, redactor: Redactor) -> Signal:
    value = signal.value_json
    return msgspec.structs.replace(
        signal, value_json=None if value is None else redactor.json(value)
    )


def _shown_failure(failure: Failure, rules: Rules, job: Job | None) -> Failure:
    redactor = Redactor(rules, None)
    if job is not None:
        redactor = Redactor(rules, job.args_json, job.headers_json)
    note = None if failure.note is None else redact(failure.note)
    sample = _shown_error(failure.sample, redactor)
    return msgspec.structs.replace(failure, sample=sample, note=note)


def _shown_operation(operation: Operation) -> Operation:
    request, progress = operation.request, operation.progress
    reason = None if request.reason is None else redact(request.reason)
    errors = tuple(map(redact, progress.errors))
    return msgspec.structs.replace(
        operation,
        request=msgspec.structs.replace(request, reason=reason),
        progress=msgspec.structs.replace(progress, errors=errors),
    )


def _shown_entry(entry: LedgerEntry, redactor: Redactor) -> LedgerEntry:
    result, error = entry.result_json, entry.error
    return msgspec.structs.replace(
        entry,
        reason=redactor.text(entry.reason),
        result_json=None if result is None else redactor.result(result),
        error=None if error is None else redactor.text(error),
    )


def _shown_progress(progress: Progress, redactor: Redactor) -> Progress:
    message, checkpoint = progress.message, progress.checkpoint_json
    return msgspec.structs.replace(
        progress,
        message=None if message is None else redactor.text(message),
        checkpoint_json=None if checkpoint is None else redactor.json(checkpoint),
    )


def _shown_error(error: ErrorEntry, redactor: Redactor) -> ErrorEntry:
    return msgspec.structs.replace(
        error,
        message=redactor.text(error.message),
        traceback=None if error.traceback is None else redactor.text(error.traceback),
    )
