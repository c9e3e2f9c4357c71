"""Votes: what people answer whom a job has asked, and what their answers decide.

Each person who is asked has a token of their own, and answers for one wait of one job. The answer
travels as a signal: its name says which wait and who, so it wakes the job if the job waits for it.
A wait is decided as a gate of a flow is: it is *met* when enough have said yes, and *impossible*
when so many have said no that the others are not enough.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from holdfast.errors import Denied

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
        """The name of the signal that carries the vote. It is the name of its step too.

        >>> Invited("0192", "leads", "ann").signal
        'approval ["leads","ann"]'
        """
        return PREFIX + msgspec.json.encode([self.wait, self.who]).decode()


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


def read_vote_signal(name: str) -> tuple[str, str] | None:
    """The wait and the person of a signal that carries a vote; None for any other signal.

    >>> read_vote_signal('approval ["leads","ann"]')
    ('leads', 'ann')
    """
    if not name.startswith(PREFIX):
        return None
    try:
        wait, who = msgspec.json.decode(name[len(PREFIX) :], type=tuple[str, str])
    except msgspec.DecodeError:
        return None
    return wait, who
