"""Errors about the steps of a job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from holdfast.errors.base import HoldfastError


class StepFailed(HoldfastError):
    """A step failed, now or in an earlier attempt: `kind` is the class of its error, `message` what
    the error said. Where it failed now, the error itself is the cause."""

    def __init__(self, step: str, kind: str, message: str, tries: int = 1) -> None:
        how_often = "" if tries == 1 else f" after {tries} tries"
        super().__init__(f"step {step!r} failed{how_often}: {kind}: {message}")
        self.step = step
        self.kind = kind
        self.message = message
        self.tries = tries

    def __reduce__(self) -> tuple[type[StepFailed], tuple[str, str, str, int]]:
        return type(self), (self.step, self.kind, self.message, self.tries)


class StepRefused(HoldfastError):
    """A step whose result cannot be recorded: JSON cannot carry it, it is too large, or the job has
    too many steps. Another try would end in the same way, so the job fails for good."""


class StreamRefused(HoldfastError):
    """A frame that cannot be written: JSON cannot carry it, it is too large, the streams of the job
    take too much, or the stream is closed. Another try would end in the same way, so the job fails
    for good."""


class WaitTimedOut(HoldfastError, TimeoutError):
    """What the handler waited for did not come in the time that the handler gave it, or came after
    that. `awaited` says what it was: `signal 'paid'`."""

    def __init__(self, awaited: str, seconds: float | None) -> None:
        within = "in time" if seconds is None else f"within {seconds:g} s"
        super().__init__(f"{awaited} did not come {within}")
        self.awaited = awaited
        self.seconds = seconds

    def __reduce__(self) -> tuple[type[WaitTimedOut], tuple[str, float | None]]:
        return type(self), (self.awaited, self.seconds)


class BadSignal(HoldfastError):
    """The value of a signal does not fit the type that the handler waits for. It is recorded: a
    later attempt gets it again."""

    def __init__(self, signal: str, problem: str) -> None:
        super().__init__(
            f"signal {signal!r}: its value does not fit the type waited for: {problem}"
        )
        self.signal = signal
        self.problem = problem

    def __reduce__(self) -> tuple[type[BadSignal], tuple[str, str]]:
        return type(self), (self.signal, self.problem)


class AnswerRefused(HoldfastError):
    """An answer does not count. The text is the same for every reason: whoever tries tokens learns
    nothing from it. Operators read the reason in the log and the audit."""

    def __init__(self) -> None:
        super().__init__(
            "this answer does not count: the token is not valid, or what it was for is over"
        )

    def __reduce__(self) -> tuple[type[AnswerRefused], tuple[()]]:
        return type(self), ()


class Denied(HoldfastError):
    """The people who were asked have not granted it: so many said no, or the time was over
    (`timed_out`). `votes` has who said yes and who said no. Another attempt would hear the same, so
    a handler that lets this pass fails for good."""

    def __init__(self, votes: Mapping[str, bool], *, timed_out: bool) -> None:
        said = ", ".join(f"{who} {'yes' if approve else 'no'}" for who, approve in votes.items())
        how = "not granted in time" if timed_out else "denied"
        super().__init__(f"{how}: {said or 'nobody has answered'}")
        self.votes = dict(votes)
        self.timed_out = timed_out

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.votes, timed_out=self.timed_out), ()


class SignalsFull(HoldfastError):
    """A job was sent more signals than it may have, or larger ones."""

    def __init__(self, job_id: str, number: int, size: int) -> None:
        super().__init__(
            f"job {job_id} can take no more signals: it may be sent {number:,}, and those that it "
            f"has not waited for yet may take {size:,} bytes; send a reference to the data, or let "
            "the job end and begin another"
        )
        self.job_id = job_id


class CallFailed(HoldfastError):
    """A job that the handler called ended badly, or a flow that it ran did. `job_id` names the job
    that decided it, `state` says how it ended, and `kind` and `message` are its error. It had all
    its attempts, so a handler that lets this pass fails for good."""

    def __init__(
        self,
        call: str,
        state: str,
        *,
        job_id: str | None = None,
        task: str | None = None,
        kind: str | None = None,
        message: str | None = None,
        why: str | None = None,
    ) -> None:
        child = "it" if job_id is None else f"job {job_id} of task {task!r}"
        error = "" if kind is None else f" ({kind})"
        reason = "" if why is None else f"{why}: "
        super().__init__(f"{call} failed: {reason}{child} is {state}{error}")
        self.call = call
        self.state = state
        self.job_id = job_id
        self.task = task
        self.kind = kind
        self.message = message
        self.why = why

    def __reduce__(self) -> tuple[object, ...]:
        named = {name: getattr(self, name) for name in ("job_id", "task", "kind", "message", "why")}
        return partial(type(self), self.call, self.state, **named), ()
