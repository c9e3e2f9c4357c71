"""A filter as the parameters of a script.

What a filter asks of JSON is decided in Python: a cast to `json` raises an error at a text that is
no JSON, and one such row would spoil every page. SQL only leaves out rows that have no piece of the
wanted value (`Piece`).
"""

from __future__ import annotations

from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.matching import BodyTest, Piece, Unusual

PATTERNS = {Unusual.ESCAPED: r"\\u", Unusual.EXPONENT: r"[0-9][eE]"}
"""What a JSON text has that is unusual."""


def parameters(which: JobFilter) -> tuple[object, ...]:
    """The parameters of the parts `walked`, `filtered` and `body_fits`; None means any."""
    states = which.states_possible
    schedule = None if which.schedule is None else Piece.of(which.schedule)
    return (
        list(which.ids) or None,
        [state.value for state in states] if states != frozenset(JobState) else None,
        list(which.queues) or None,
        list(which.tasks) or None,
        list(which.tags) or None,
        which.created_after,
        which.created_before,
        which.error_text or None,
        not states.isdisjoint(ENDED),
        JobState.SUCCEEDED in states,
        which.worker,
        which.priority,
        which.priority_over,
        which.priority_under,
        which.attempts_over,
        which.finished_after,
        which.finished_before,
        *_searched(Piece.best(which.args)),
        *_searched(schedule),
        which.fingerprint,
    )


def json_test(which: JobFilter) -> BodyTest | None:
    """What Python has to look at in bodies; SQL has looked at the tags."""
    if which.args or which.schedule is not None:
        return BodyTest((), which.args, which.schedule)
    return None


def reads_a_range(which: JobFilter) -> bool:
    """Whether the bodies of a step are a range of the table: the filter asks something of bodies,
    and leaves out no place, so that all bodies between two walked jobs are of walked jobs."""
    asks = which.tags or which.args or which.schedule or which.created_after or which.created_before
    return bool(asks) and not which.ids and which.states_possible == frozenset(JobState)


def _searched(piece: Piece | None) -> tuple[str | None, str | None]:
    return (None, None) if piece is None else (piece.text, PATTERNS[piece.unless])
