"""A filter as the parameters of a script, and the places that a walk reads for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

import msgspec

from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.matching import BodyTest, Piece, Unusual
from holdfast.store.sqlite.places import TABLES
from holdfast.store.sqlite.rows import to_json, to_json_object, to_micros
from holdfast.store.sqlite.scripts import steps


def arms_of(which: JobFilter) -> str:
    """The places of the jobs that the filter may mean, as one compound select."""
    states = which.states_possible
    span = "among ids" if which.ids else "below the cursor"
    if which.fingerprint is not None:
        return _united(("failed",) if states else (), span)
    names = [state.value for state in TABLES if state in states]
    if JobState.SUCCEEDED in states:
        names.append("ended")
    elif states & ENDED:
        names.append("unhappy")
    return _united(tuple(names), span)


@cache
def _united(names: tuple[str, ...], span: str) -> str:
    return "\nunion all\n".join(map(_arm, names)).replace("{{span}}", steps("jobs/walk")[span])


def _arm(name: str) -> str:
    """A place whose rows tell nothing but the job needs no arm of its own."""
    sql = steps("jobs/walk")
    if name in sql:
        return sql[name]
    arm = sql["any other place"].replace("{{state}}", name)
    return arm.replace("{{place}}", TABLES[JobState(name)])


def parameters(which: JobFilter) -> dict[str, object]:
    """The parameters of the part `filter`; None means any. Only pieces of texts are searched for: a
    number with an exponent is found sooner by reading the JSON than by a pattern."""
    body, piece = BodyTest.of(which), Piece.best(which.args)
    of_tags = Piece.best({tag: tag for tag in which.tags})
    if piece is not None and piece.unless is Unusual.EXPONENT:
        piece = None
    dated = which.created_after is not None or which.created_before is not None
    return {
        "ids": _listed(which.ids),
        "states": _listed(which.states),
        "queues": _listed(which.queues),
        "tasks": _listed(which.tasks),
        "worker": which.worker,
        "fingerprint": which.fingerprint,
        "priority": which.priority,
        "priority_over": which.priority_over,
        "priority_under": which.priority_under,
        "attempts_over": which.attempts_over,
        "created_after": _micros(which.created_after),
        "created_before": _micros(which.created_before),
        "finished_after": _micros(which.finished_after),
        "finished_before": _micros(which.finished_before),
        "error_text": which.error_text or None,
        "body": None if body is None else to_json_object(msgspec.to_builtins(body)),
        "in_body": dated or body is not None,
        "tags_piece": None if of_tags is None else of_tags.text,
        "has_headers": which.schedule is not None,
        "args_piece": None if piece is None else piece.text,
    }


def _listed(values: Sequence[str] | frozenset[JobState]) -> str | None:
    return to_json(values) if values else None


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
