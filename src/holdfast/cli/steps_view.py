"""The steps of one job, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.output import (
    ago_text,
    job_document,
    make_table,
    make_text,
    state_text,
    time_text,
)
from holdfast.clock import utcnow
from holdfast.job.call import FAILED, called_flow, decode_failure
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.job.step import Step
from holdfast.job.undo import decode_undo

if TYPE_CHECKING:
    from rich.console import RenderableType

RESULT_WIDTH = 80


def steps_document(job: Job, steps: Sequence[Step]) -> dict[str, Any]:
    return {"job": job_document(job), "steps": [_step_document(step) for step in steps]}


def _step_document(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "n": step.n,
        "how": how_it_stands(step),
        "tries": step.tries,
        "at": step.at,
        "until": step.until,
        "awaits": step.awaits,
        "result": step.result,
        "kind": step.kind,
        "message": step.message,
        "version": step.version,
        "fence": step.fence,
        "undo": None if step.undo is None else decode_undo(step.undo).task,
    }


def how_it_stands(step: Step) -> str:
    """One word: `returned`, `failed`, `slept`, `sleeps`, or `waits` for a try, signal or call."""
    if step.returned:
        return "returned"
    if step.failed:
        return "failed"
    is_over = step.until is not None and step.until <= utcnow()
    if step.slept:
        return "slept" if is_over else "sleeps"
    return "waits"


def draw_steps(job: Job, steps: Sequence[Step]) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text.assemble(f"job {job.id} ({job.task}) is ", state_text(job.state))
    if not steps:
        yield "it has recorded no steps"
        return
    table = make_table(">n", "step", "=how", ">tries", "=recorded", "note")
    for step in steps:
        how = how_it_stands(step)
        recorded = ago_text(step.at)
        table.add_row(str(step.n), step.name, how, str(step.tries), recorded, _note(step))
    yield table
    if job.state is JobState.SUCCEEDED and job.reason is not None:
        yield make_text(job.reason, "yellow")


def _note(step: Step) -> str:
    if step.kind == FAILED:
        failure = decode_failure(step.message)
        note = f"{failure.why or ''} job {failure.job} is {failure.state} ({failure.kind})"
    elif step.kind is not None:
        note = f"{step.kind}: {step.message}"
    elif (flow := called_flow(step.awaits)) is not None:
        note = f"for flow {flow}"
    elif step.awaits is not None:
        note = f"for signal {step.awaits!r}"
        note += "" if step.until is None else f" until {time_text(step.until)}"
    elif step.until is not None:
        note = f"until {time_text(step.until)}"
    else:
        note = step.result_json or ""
    if step.within is not None:
        note = f"(within {step.within!r}) {note}"
    if step.undo is not None:
        note = f"(undone by {decode_undo(step.undo).task}) {note}"
    line = " ".join(note.split())
    return line if len(line) <= RESULT_WIDTH else line[: RESULT_WIDTH - 1] + "…"
