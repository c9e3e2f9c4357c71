"""What is said about a job that waits for people: who has answered, who can, and until when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from holdfast.insights.reasons import Reason, Who, span_text
from holdfast.job.sealed import is_sealed
from holdfast.job.signal import Signal
from holdfast.job.step import Step
from holdfast.job.vote import CastVote, VoteName, cast_votes, read_ballot, read_vote_signal

SHOWN = 10
"""How many people are named of those who have answered, and of those who have not."""
ADVICE = "each answers by the token that they were sent"


def about_votes(
    waits: Iterable[Step],
    steps: Sequence[Step],
    signals: Sequence[Signal],
    keys: Collection[str],
    now: datetime,
) -> list[Reason]:
    """A reason for each wait that asks people. `keys` are those by which live workers of the
    job can prove votes; without such a worker there are none."""
    asked: dict[str, list[tuple[VoteName, Step]]] = {}
    for step in waits:
        if (name := read_vote_signal(step.awaits or "")) is not None:
            asked.setdefault(name.wait, []).append((name, step))
    casts = list(cast_votes(steps, signals))
    return [
        _reason(missing, [cast for cast in casts if cast.name.wait == wait], keys, now)
        for wait, missing in asked.items()
    ]


def _reason(
    missing: Sequence[tuple[VoteName, Step]],
    casts: Iterable[CastVote],
    keys: Collection[str],
    now: datetime,
) -> Reason:
    _, first = missing[0]
    awaited = {name.who: name.n for name, _ in missing}
    last = {cast.name.who: cast for cast in sorted(casts, key=lambda cast: cast.name.n)}
    said = {who: _word(cast, awaited.get(who, 0), keys) for who, cast in last.items()}
    silent = [who for who in awaited if who not in said]
    fact = f"it waits for {first.message} since {span_text(now, first.at)}"
    parts = [_listed([f"{who} {word}" for who, word in said.items()])] if said else []
    if silent:
        parts.append(f"{_listed(silent)} {'has' if len(silent) == 1 else 'have'} not answered")
    fact += (": " if said else "; ") + "; ".join(parts)
    if first.until is not None:
        fact += f"; {span_text(first.until, now)} left, then it goes on without them"
    return Reason("awaits-votes", fact, Who.PEOPLE, _advice(last, awaited, keys))


def _word(cast: CastVote, awaited: int, keys: Collection[str]) -> str:
    """Yes or no, as far as this program can read the vote, and why it does not count yet. A worker
    that could not prove it has asked the person again."""
    if (kid := unknown_key(cast, awaited, keys)) is not None:
        return f"{_answer(cast)} (signed with a key that no worker of the job has: {kid})"
    if awaited <= cast.name.n:
        return _answer(cast)
    if (ballot := read_ballot(cast.text)) is not None:
        return f"{_answer(cast)} (not proven by the worker that looked: key {ballot.kid})"
    why = "not readable for the worker" if is_sealed(cast.text) else "without a valid proof"
    return f"{_answer(cast)} ({why})"


def _answer(cast: CastVote) -> str:
    ballot = read_ballot(cast.text)
    if ballot is None:
        return "has answered"
    return "yes" if ballot.vote.approve else "no"


def unknown_key(cast: CastVote, awaited: int, keys: Collection[str]) -> str | None:
    """The key of this vote, if no live worker of the job has it. Where none is alive, one has
    looked before and lacked the key, or nobody knows."""
    ballot = read_ballot(cast.text)
    if ballot is None or ballot.kid in keys or not (keys or awaited > cast.name.n):
        return None
    return ballot.kid


def _advice(last: Mapping[str, CastVote], awaited: Mapping[str, int], keys: Collection[str]) -> str:
    found = {who: unknown_key(cast, awaited.get(who, 0), keys) for who, cast in last.items()}
    unknown = {who: kid for who, kid in found.items() if kid is not None}
    if not unknown:
        return ADVICE
    kids, people = ", ".join(sorted(set(unknown.values()))), _listed(list(unknown))
    return f"give the workers the signing key {kids}, or let {people} answer again; {ADVICE}"


def _listed(people: Sequence[str]) -> str:
    more = f" and {len(people) - SHOWN} others" if len(people) > SHOWN else ""
    return ", ".join(people[:SHOWN]) + more
