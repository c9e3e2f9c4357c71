"""Which texts of the records are encrypted, and what each of them is bound to.

Arguments and headers are bound to the job's id, its task and their field. What an attempt writes is
bound to the id and the field, and an error also to the number of its attempt: the records that
carry these do not name the task. Text that a program without the keys must read stays plain: names,
times, tags, kinds of errors, and reasons that Holdfast itself words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from holdfast.encryption.sealing import Owner, Sealing
from holdfast.errors import HoldfastError, Undecipherable
from holdfast.job.happening import Happening
from holdfast.job.ids import JobId
from holdfast.job.record import Claimed, ErrorEntry, Job, NewJob, NodeFacts, Progress
from holdfast.job.sealed import HELD, MARK, altered, is_sealed, read_envelope, shown
from holdfast.job.signal import NewSignal, Recalled, Signal
from holdfast.job.state import JobState
from holdfast.job.step import Step, StepRecord
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.matching import scheduled_by
from holdfast.store.contract.records import Outcome, Page, ProgressReport

CUT_AT = MESSAGE_LIMIT // 6
"""A character takes at most four bytes, and three bytes take four characters of base64."""
NULL = "null"
"""A result that tells nothing stays as it is: most tasks have no other."""

_WORDED_BY_USERS = frozenset({JobState.FAILED, JobState.CANCELLED, JobState.SKIPPED})
_replace = msgspec.structs.replace
SIGNAL = "signal"

Hide = Callable[[str, str], str]
"""Takes a field and its text; gives the encrypted text, or the text as it was."""


class Records:
    """Encrypts and opens records. `unencrypted` names what stays plain by the user's choice."""

    def __init__(self, sealing: Sealing, unencrypted: Collection[str] = ()) -> None:
        self.sealing = sealing
        self.hides_errors = "errors" not in unencrypted
        self.hides_messages = "progress" not in unencrypted

    def owner(self, job_id: str) -> Owner:
        return self.sealing.of(f"job {job_id}")

    # What goes into the store ------------------------------------------------------------

    def new_job(self, job: NewJob) -> NewJob:
        owner = self.owner(job.id)
        args = self.args(job, owner)
        if job.headers is None:
            return _replace(job, args=args)
        schedule = scheduled_by(job.headers)
        headers = owner.seal("headers", job.headers, job.task, schedule=schedule)
        return _replace(job, args=args, headers=headers)

    def args(self, job: NewJob, owner: Owner) -> str:
        """A call that debounces may give its arguments to another job, so its arguments are bound
        to the unique key that both share."""
        unique = job.unique
        if unique is None or unique.on_conflict != "debounce":
            return owner.seal("args", job.args, job.task)
        return self._holder(unique.key).seal("args", job.args, job.task, held=True, steady=True)

    def edited(self, job: Job, args: str) -> str:
        """The new arguments of a job. Arguments that it has already stay as they are stored, so
        that the store sees that nothing changed."""
        if self.job(job).args_json == args:
            return job.args_json
        return self.owner(job.id).seal("args", args, job.task)

    def _holder(self, key: str) -> Owner:
        return self.sealing.of(f"holder {key}")

    def transition(self, move: Transition) -> Transition:
        if move.steps:
            move = _replace(move, steps=tuple([self.step_record(one) for one in move.steps]))
        result, reason, error = move.result, move.reason, move.error
        if reason is None and error is None and (result is None or result == NULL):
            return move
        owner = self.owner(move.id)
        if result is not None and result != NULL:
            result = owner.seal("result", result)
        if self.hides_errors:
            if reason is not None and _is_worded_by_users(move):
                reason = owner.seal("reason", reason)
            if error is not None:
                error = _with_texts(error, lambda field, text: owner.seal(field, text))
        return _replace(move, result=result, reason=reason, error=error)

    def step_record(self, record: StepRecord) -> StepRecord:
        result, message = record.result, record.message
        if (result is None or result == NULL) and message is None:
            return record
        owner = self.owner(record.id)
        if result is not None and result != NULL:
            result = owner.seal(_step_field(record.name), result)
        if message is not None and self.hides_errors:
            message = owner.seal(_step_field(record.name), message)
        return _replace(record, result=result, message=message)

    def new_signal(self, signal: NewSignal) -> NewSignal:
        """Names and keys stay as they are: the store looks for them."""
        if signal.value == NULL:
            return signal
        return _replace(signal, value=self.owner(signal.id).seal(SIGNAL, signal.value))

    def report(self, report: ProgressReport) -> ProgressReport:
        said, owner = report.progress, self.owner(report.id)
        message, saved = said.message, said.checkpoint_json
        if message is not None and self.hides_messages:
            message = owner.seal("message", message)
        if saved is not None:
            saved = owner.seal("checkpoint", saved)
        return _replace(report, progress=_replace(said, message=message, checkpoint_json=saved))

    # What comes out of it ----------------------------------------------------------------

    def claimed(self, job: Claimed, key: str | None = None) -> Claimed:
        """The job as its worker takes it. If any of its texts does not open, its arguments say so
        instead: then no handler is given the job."""
        node = self.node(job.node)
        if job.recalled is not None:
            job = _replace(job, recalled=self.recalled(job.id, job.recalled))
        if not (is_sealed(job.args) or is_sealed(job.checkpoint)):
            return job if node is job.node else _replace(job, node=node)
        owner, task = self.owner(job.id), job.task
        args = self._opened(self._owner_of_args(owner, job.args, key), "args", job.args, task)
        headers = self._opened(owner, "headers", job.headers, task)
        checkpoint = self._opened(owner, "checkpoint", job.checkpoint)
        closed = next((text for text in (args, headers, checkpoint) if is_sealed(text)), None)
        if closed is not None:
            return _replace(job, args=closed, headers=None, checkpoint=None)
        return _replace(job, args=args, headers=headers, checkpoint=checkpoint, node=node)

    def node(self, facts: NodeFacts | None) -> NodeFacts | None:
        if facts is None or not facts.results:
            return facts
        opened = {
            upstream: self._opened(self.owner(upstream), "result", result)
            for upstream, result in facts.results.items()
        }
        return _replace(facts, results=opened)

    def recalled(self, job: JobId, recalled: Recalled) -> Recalled:
        """As whoever reads steps and signals gets them."""
        return Recalled(
            [self.step(job, one) for one in recalled.steps],
            [self.signal(job, one) for one in recalled.signals],
        )

    def is_held(self, job: Claimed) -> bool:
        """Whether the unique key of the job has to be known for its arguments to be opened."""
        return job.args.startswith(MARK) and job.args.endswith(HELD)

    def job(self, job: Job) -> Job:
        """The job for whoever reads it. A text that does not open stays encrypted."""
        owner, task = self.owner(job.id), job.task
        source = self._owner_of_args(owner, job.args_json, job.unique_key)
        return _replace(
            job,
            args_json=self._opened(source, "args", job.args_json, task) or "",
            headers_json=self._opened(owner, "headers", job.headers_json, task),
            result_json=self._opened(owner, "result", job.result_json),
            reason=self._opened(owner, "reason", job.reason),
            progress=None if job.progress is None else self._progress(owner, job.progress),
            errors=tuple([self._error(owner, error) for error in job.errors]),
        )

    def error(self, job_id: str, error: ErrorEntry) -> ErrorEntry:
        return self._error(self.owner(job_id), error)

    def signal(self, job: JobId, signal: Signal) -> Signal:
        value = self._opened(self.owner(job), SIGNAL, signal.value_json)
        return _replace(signal, value_json=value)

    def happening(self, happening: Happening) -> Happening:
        """Its message is that of an error, or the reason of a move."""
        owner, number = self.owner(happening.job_id), happening.attempt
        field = "reason" if happening.kind is None else f"error {number}"
        message = self._opened(owner, field, happening.message)
        traceback = self._opened(owner, f"traceback {number}", happening.traceback)
        return _replace(happening, message=message, traceback=traceback)

    def step(self, job_id: str, step: Step) -> Step:
        if not (is_sealed(step.result_json) or is_sealed(step.message)):
            return step
        owner, field = self.owner(job_id), _step_field(step.name)
        result = self._opened(owner, field, step.result_json)
        return _replace(step, result_json=result, message=self._opened(owner, field, step.message))

    def page(self, page: Page) -> Page:
        return _replace(page, jobs=tuple([self.job(job) for job in page.jobs]))

    def outcome(self, outcome: Outcome) -> Outcome:
        if not (is_sealed(outcome.result) or is_sealed(outcome.reason)):
            return outcome
        owner = self.owner(outcome.id)
        result = self._opened(owner, "result", outcome.result)
        return _replace(
            outcome, result=result, reason=self._opened(owner, "reason", outcome.reason)
        )

    def _progress(self, owner: Owner, said: Progress) -> Progress:
        message = self._opened(owner, "message", said.message)
        saved = self._opened(owner, "checkpoint", said.checkpoint_json)
        return _replace(said, message=message, checkpoint_json=saved)

    def _error(self, owner: Owner, error: ErrorEntry) -> ErrorEntry:
        return _with_texts(error, lambda field, text: self._opened(owner, field, text) or "")

    def _owner_of_args(self, owner: Owner, args: str, key: str | None) -> Owner:
        held = key is not None and is_sealed(args) and read_envelope(args).held
        return self._holder(key) if held and key is not None else owner

    def _opened(self, owner: Owner, field: str, text: str | None, task: str = "") -> str | None:
        return text if text is None else opened(owner, field, text, task)


def opened(owner: Owner, field: str, text: str, task: str = "") -> str:
    """The value of a text. One that is not encrypted is its own value: jobs may be older than the
    keys. One that does not open stays encrypted; that it was altered is noted in it."""
    if not text.startswith(MARK):
        return text
    try:
        return owner.open(field, text, task)
    except Undecipherable as error:
        return altered(error.kid)
    except HoldfastError:
        return text


def seal_cut(owner: Owner, field: str, text: str) -> str:
    """Encrypt a text that stores cut to `MESSAGE_LIMIT` and compare with the one before. Half an
    encrypted text does not open, and two encryptions of one text differ but for `steady`."""
    return owner.seal(field, clean(text, CUT_AT), steady=True)


def shown_or_opened(owner: Owner, field: str, text: str | None) -> str | None:
    """The value of a text that only people read."""
    return None if text is None else shown(opened(owner, field, text))


def _is_worded_by_users(move: Transition) -> bool:
    """Whether the reason may quote an exception or what a handler said. `left for a worker that can
    read it` and its like are worded by Holdfast, and `doctor` looks for them."""
    return move.error is not None or move.to in _WORDED_BY_USERS or move.why is What.THROTTLED


def _step_field(name: str) -> str:
    return f"step {name}"


def _with_texts(error: ErrorEntry, change: Hide) -> ErrorEntry:
    traceback = error.traceback
    if traceback is not None:
        traceback = change(f"traceback {error.attempt}", traceback)
    message = change(f"error {error.attempt}", error.message)
    return _replace(error, message=message, traceback=traceback)
