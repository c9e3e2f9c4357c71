"""The life of one job, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.output import (
    ago_text,
    duration_text,
    job_document,
    local_time,
    make_table,
    make_text,
    state_text,
)
from holdfast.insights.actions import Noun, Verb
from holdfast.insights.life import FlowAct, Life, Moment
from holdfast.job.state import ENDED
from holdfast.job.what import What
from holdfast.operations.verbs import VERBS

if TYPE_CHECKING:
    from rich.console import RenderableType

WORKER_DIGITS = 8
"""How much of a worker's id is shown: its end, because ids that are minted together begin alike."""

STYLES = {
    What.SUCCEEDED: "green",
    What.FAILED: "bold red",
    What.RETRIED: "red",
    What.TIMED_OUT: "red",
    What.LOST: "red",
    What.CANCELLED: "magenta",
    What.EXPIRED: "magenta",
    What.ENQUEUED: "dim",
    What.CLAIMED: "dim",
    What.PROMOTED: "dim",
}
SHOWN = {What.PROMOTED: "due"}


def life_document(life: Life) -> dict[str, Any]:
    return {
        "job": job_document(life.job),
        "moments": [msgspec.to_builtins(moment) for moment in life.moments],
        "is_whole": life.is_whole,
        "of_flow": [msgspec.to_builtins(act) for act in life.of_flow],
    }


def draw_life(life: Life) -> Iterator[RenderableType]:
    from rich.text import Text

    job = life.job
    yield Text.assemble(f"job {job.id} ({job.task}) is ", state_text(job.state))
    table = make_table("=time", ">since", "=what", ">try", "=worker", "note")
    day = None
    told: list[Moment | FlowAct] = [*life.moments, *life.of_flow]
    for moment in sorted(told, key=lambda one: one.at):
        local = local_time(moment.at)
        if local.date() != day:
            day = local.date()
            table.add_row(make_text(day.isoformat(), "dim"))
        table.add_row(*(_row(moment) if isinstance(moment, Moment) else _act_row(moment)))
    yield table
    if not life.is_whole:
        yield make_text("so much happened that some of it may be missing in between", "dim")
    if job.state not in ENDED and job.due_at is not None:
        yield make_text(f"due {ago_text(job.due_at)}", "dim")


def _time_of_day(moment: Moment | FlowAct) -> str:
    local = local_time(moment.at)
    return f"{local:%H:%M:%S}.{local.microsecond // 1000:03}"


def _act_row(act: FlowAct) -> Iterator[RenderableType]:
    """What was done to the flow of the job stands among the moments of the job."""
    row = VERBS[Noun.FLOWS, Verb(act.verb.partition(".")[2])]
    yield from (_time_of_day(act), "", make_text(f"flow {row.done}", "dim"), "", "")
    yield f"by {act.by}"


def _row(moment: Moment) -> Iterator[RenderableType]:
    yield _time_of_day(moment)
    yield "" if moment.since is None else f"+{duration_text(moment.since)}"
    word = SHOWN.get(moment.what, moment.what.replace("_", " "))
    yield make_text(word, STYLES.get(moment.what, "yellow"))
    yield "" if moment.attempt is None else str(moment.attempt)
    yield "" if moment.worker_id is None else moment.worker_id[-WORKER_DIGITS:]
    yield ", ".join(_notes(moment))


def _notes(moment: Moment) -> Iterator[str]:
    if moment.by is not None:
        yield f"by {moment.by}"
    if moment.error is not None:
        first = moment.error.message.strip().partition("\n")[0]
        yield f"{moment.error.kind}: {first}"
    if moment.note:
        yield moment.note
    if moment.due_at is not None:
        yield f"due in {duration_text((moment.due_at - moment.at).total_seconds())}"
