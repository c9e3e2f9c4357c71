"""Answers what handlers ask about people: it has the keys.

Tokens are signed here, so no child process ever has a key. A vote is taken only if its proof holds.
One that this worker cannot prove stays in the store as it is: the program that took the answer may
have a key that this worker lacks, or somebody without a key wrote it. Either way the person is
asked again, and the vote is reported.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.events import Events
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    SignTokens,
    StepKept,
    TakeVotes,
    TokensSigned,
    VotesTaken,
)
from holdfast.job.signal import Signal
from holdfast.job.vote import CastVote, Invited, Vote, read_ballot
from holdfast.worker.attempt import Attempt
from holdfast.worker.journal import Journal
from holdfast.worker.step_answers import StepAnswers

if TYPE_CHECKING:
    from holdfast.encryption.keyring import Keyring
    from holdfast.encryption.signing import Signer


def _signer(keys: Keyring) -> Signer:
    from holdfast.encryption.signing import Signer  # most programs have no keys

    return Signer(keys)


class VoteAnswers:
    """Signs tokens and takes votes for the handlers of one worker."""

    def __init__(self, keys: Keyring | None, steps: StepAnswers, events: Events) -> None:
        self._signer = None if keys is None else _signer(keys)
        self._steps = steps
        self._events = events

    def sign(self, job: str, request: SignTokens) -> TokensSigned:
        """Threads may call this."""
        if self._signer is None:
            return TokensSigned(None)
        sign, wait = self._signer.token, request.wait
        return TokensSigned({who: sign(Invited(job, wait, who)) for who in request.people})

    async def take(self, attempt: Attempt, request: TakeVotes) -> Answer:
        """The store is asked if there is nothing to take among the votes that were seen."""
        if attempt.is_over or (journal := await self._steps.journal(attempt)) is None:
            return AttemptGone()
        if not (kept := _kept(self._proven(attempt, journal, request))):
            if not await self._steps.read_signals(attempt, journal):
                return AttemptGone()
            kept = _kept(self._proven(attempt, journal, request))
        if kept:
            answer = await self._steps.take(attempt, journal, kept)
            if not isinstance(answer, StepKept):
                return answer
        votes = _newest(self._proven(attempt, journal, request))
        return VotesTaken(
            votes,
            _awaited(attempt, journal, request, {vote.who for vote in votes}),
            bool(kept),
            min(journal.ends_of_wait(request.wait, request.people), default=None),
        )

    def _proven(
        self, attempt: Attempt, journal: Journal, request: TakeVotes
    ) -> list[tuple[CastVote, Vote]]:
        """The votes on this wait whose proof holds. All others are reported, once an attempt."""
        found = []
        for cast in journal.votes():
            if cast.name.wait != request.wait or cast.name.who not in request.people:
                continue
            asked = Invited(attempt.job.id, request.wait, cast.name.who)
            vote = None if self._signer is None else self._signer.vote(asked, cast.text)
            if vote is not None:
                found.append((cast, vote))
            elif cast not in journal.unproven:
                journal.unproven.add(cast)
                self._report(asked, cast)
        return found

    def _report(self, asked: Invited, cast: CastVote) -> None:
        ballot = read_ballot(cast.text)
        kid = None if ballot is None else ballot.kid
        lacks = kid is not None and (self._signer is None or not self._signer.knows(kid))
        self._events.error(
            "job.vote_unproven",
            job_id=asked.job,
            wait=asked.wait,
            who=asked.who,
            key=kid,
            reason="this worker lacks the key" if lacks else "the proof does not hold",
        )


def _kept(proven: Iterable[tuple[CastVote, Vote]]) -> dict[str, Signal]:
    """The signals of those votes that no step has recorded, by the names of their steps."""
    return {cast.step: cast.signal for cast, _ in proven if cast.signal is not None}


def _newest(proven: Iterable[tuple[CastVote, Vote]]) -> tuple[Vote, ...]:
    """The last word of each person, in the order of the words. Who answered when is signed too, so
    nobody without a key can bring an earlier answer back."""
    last: dict[str, tuple[datetime, int, Vote]] = {}
    for cast, vote in proven:
        found = (vote.at, cast.name.n, vote)
        if vote.who not in last or found[:2] >= last[vote.who][:2]:
            last[vote.who] = found
    return tuple(vote for _, _, vote in sorted(last.values(), key=lambda found: found[0]))


def _awaited(
    attempt: Attempt, journal: Journal, request: TakeVotes, voted: Container[str]
) -> tuple[str, ...]:
    """The signals of the next answers of everybody else. No vote that is there has such a name: one
    that cannot be proven would wake the job again and again."""
    numbers: dict[str, int] = {}
    for cast in journal.votes():
        if cast.name.wait == request.wait:
            numbers[cast.name.who] = max(cast.name.n, numbers.get(cast.name.who, 0))
    return tuple(
        Invited(attempt.job.id, request.wait, who).nth_signal(numbers.get(who, 0) + 1)
        for who in request.people
        if who not in voted
    )
