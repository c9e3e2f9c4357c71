"""Errors about the steps of a job."""

from __future__ import annotations

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
