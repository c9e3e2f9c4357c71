"""Votes: what people answer whom a job has asked, and what their answers decide.

Each person who is asked has a token of their own, and answers for one wait of one job. The answer
travels as a signal: its name says which wait and who, so it wakes the job if the job waits for it.
A vote counts only if its proof holds. If no worker that looked could prove it, the job asks the
person again: the next answer of that person has a number, and so a signal of its own.
A wait is decided as a gate of a flow is: it is *met* when enough have said yes, and *impossible*
when so many have said no that the others are not enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.errors import Denied
from holdfast.job.signal import Signal
from holdfast.job.step import Step

PREFIX = "approval "
"""What the name of every signal begins with that carries a vote. Nobody else may send such a
signal."""
MOST_PEOPLE = 500
"""How many people one wait may ask. Each of them may send a signal to the job."""


class Invited(msgspec.Struct, frozen=True):
    """One person, asked by one wait of one job."""

    job: str
    wait: str
    who: str

    @property
    def signal(self) -> str:
        """The name of the signal that carries the first answer. It is the name of its step too.

        >>> Invited("0192", "leads", "ann").signal
        'approval ["leads","ann"]'
        """
        return self.nth_signal(1)

    def nth_signal(self, n: int) -> str:
        """The name of the signal that carries the `n`th answer.

        >>> Invited("0192", "leads", "ann").nth_signal(2)
        'approval ["leads","ann",2]'
        """
        named = [self.wait, self.who] if n == 1 else [self.wait, self.who, n]
        return PREFIX + msgspec.json.encode(named).decode()


class VoteName(msgspec.Struct, frozen=True, array_like=True):
    """What the name of a signal says that carries a vote: the `n`th answer of `who`."""

    wait: str
    who: str
    n: int = 1


def closing_step(wait: str) -> str:
    """The name of the step after which every vote is late."""
    return PREFIX + msgspec.json.encode([wait]).decode()


class Answered(msgspec.Struct, frozen=True):
    """What somebody answers."""

    approve: bool
    note: str | None = None


class Vote(msgspec.Struct, frozen=True):
    """Who answered, what, and when by the clock of the store."""

    who: str
    approve: bool
    at: datetime
    note: str | None = None


class Ballot(msgspec.Struct, frozen=True):
    """A vote as a store keeps it. `proof` is signed by the key `kid` (`encryption/signing.py`)."""

    vote: Vote
    kid: str
    proof: str


def read_ballot(text: str | None) -> Ballot | None:
    """What a text says that is kept as a vote; None if it is none. Its proof may be wrong."""
    try:
        return None if text is None else _to_ballot(text)
    except msgspec.DecodeError:
        return None


class Approval(msgspec.Struct, frozen=True):
    """What became of a wait for votes. It was granted, or the time was over before it was decided
    (`timed_out`), or it was denied. `votes` has those that counted, in the order in which they
    came."""

    granted: bool
    timed_out: bool = False
    votes: tuple[Vote, ...] = ()

    @property
    def denied(self) -> bool:
        """So many have said no that the others are not enough."""
        return not self.granted and not self.timed_out

    def require(self) -> Approval:
        """The same, if it was granted. Otherwise it raises `Denied`, which fails the job for good:
        a node of a flow that is denied lets those be skipped that need it."""
        if not self.granted:
            said = {vote.who: vote.approve for vote in self.votes}
            raise Denied(said, timed_out=self.timed_out)
        return self


def decide_votes(votes: Sequence[Vote], people: Collection[str], need: int) -> bool | None:
    """Whether enough of these people have said yes; None while that is open.

    >>> decide_votes([], ["ann", "bob"], 1) is None
    True
    """
    won = len({vote.who for vote in votes if vote.approve and vote.who in people})
    lost = len({vote.who for vote in votes if not vote.approve and vote.who in people})
    if won >= need:
        return True
    return False if lost > len(people) - need else None


def read_vote_signal(name: str) -> VoteName | None:
    """What the name of a signal or step says that carries a vote; None for any other name.

    >>> read_vote_signal('approval ["leads","ann",2]')
    VoteName(wait='leads', who='ann', n=2)
    """
    if not name.startswith(PREFIX):
        return None
    try:
        return _to_name(name[len(PREFIX) :])
    except msgspec.DecodeError:
        return None


def question_of(step: str) -> str | None:
    """The wait that a step belongs to which has a vote or closes the question; None for any other
    step.

    >>> question_of(closing_step("leads"))
    'leads'
    """
    if not step.startswith(PREFIX):
        return None
    try:
        return _to_question(step[len(PREFIX) :]).wait
    except msgspec.DecodeError:
        return None


class CastVote(NamedTuple):
    """A vote as the store has it: `text` is recorded as a step, or kept in `signal`. Nobody has
    looked at its proof."""

    name: VoteName
    step: str
    text: str
    signal: Signal | None = None


def cast_votes(steps: Iterable[Step], signals: Iterable[Signal]) -> Iterator[CastVote]:
    """All votes that a job has recorded, in their order, and then those that it was sent since."""
    for step in steps:
        name = read_vote_signal(step.name)
        if name is not None and step.result_json is not None:
            yield CastVote(name, step.name, step.result_json)
    for one in signals:
        name = read_vote_signal(one.name)
        if name is not None and one.taken_by is None:
            yield CastVote(name, one.name, one.value_json or "null", one)


class _Question(msgspec.Struct, frozen=True, array_like=True):
    wait: str


_to_ballot = msgspec.json.Decoder(Ballot).decode
_to_name = msgspec.json.Decoder(VoteName).decode
_to_question = msgspec.json.Decoder(_Question).decode
