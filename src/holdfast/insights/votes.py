"""What is said about a job that waits for people: who has answered, who can, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from holdfast.insights.reasons import Reason, Who, span_text
from holdfast.job.json_text import shown_value
from holdfast.job.signal import Signal
from holdfast.job.step import Step
from holdfast.job.vote import read_vote_signal

SHOWN = 10
"""How many people are named of those who have answered, and of those who have not."""


def about_votes(
    waits: Iterable[Step], steps: Sequence[Step], signals: Sequence[Signal], now: datetime
) -> list[Reason]:
    """A reason for each wait that asks people."""
    asked: dict[str, list[Step]] = {}
    for step in waits:
        if (vote := read_vote_signal(step.awaits or "")) is not None:
            asked.setdefault(vote[0], []).append(step)
    ballots = {one.name: one.result_json for one in steps if one.returned} | {
        one.name: one.value_json for one in signals if one.taken_by is None
    }
    return [_reason(name, missing, ballots, now) for name, missing in asked.items()]


def _reason(
    wait: str, missing: Sequence[Step], ballots: dict[str, str | None], now: datetime
) -> Reason:
    first = missing[0]
    answered = [
        f"{vote[1]} {_word(text)}"
        for name, text in ballots.items()
        if (vote := read_vote_signal(name)) is not None and vote[0] == wait
    ]
    silent = [who for one in missing for _, who in [read_vote_signal(one.awaits or "") or ("", "")]]
    fact = f"it waits for {first.message} since {span_text(now, first.at)}"
    fact += f": {_listed(answered)}" if answered else ""
    fact += f"; {_listed(silent)} {'has' if len(silent) == 1 else 'have'} not answered"
    if first.until is not None:
        fact += f"; {span_text(first.until, now)} left, then it goes on without them"
    return Reason("awaits-votes", fact, Who.PEOPLE, "each answers by the token that they were sent")


def _word(ballot: str | None) -> str:
    """Yes or no, as far as this program can read the vote."""
    match shown_value(ballot):
        case {"vote": {"approve": bool(approve)}}:
            return "yes" if approve else "no"
    return "has answered"


def _listed(people: Sequence[str]) -> str:
    more = f" and {len(people) - SHOWN} others" if len(people) > SHOWN else ""
    return ", ".join(people[:SHOWN]) + more
