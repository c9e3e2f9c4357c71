"""Answers what handlers ask about people: it has the keys, and no store.

Tokens are signed here, so no child process ever has a key. Votes are counted only if their proof
holds: one that somebody wrote into the store without a key is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.events import Events
from holdfast.job.requests import CheckVotes, SignTokens, TokensSigned, VotesChecked
from holdfast.job.vote import Invited, Vote

if TYPE_CHECKING:
    from holdfast.encryption.keyring import Keyring
    from holdfast.encryption.signing import Signer


def _signer(keys: Keyring) -> Signer:
    from holdfast.encryption.signing import Signer  # most programs have no keys

    return Signer(keys)


class VoteAnswers:
    """Signs and checks for the handlers of one worker. Threads may share it."""

    def __init__(self, keys: Keyring | None, events: Events) -> None:
        self._signer = None if keys is None else _signer(keys)
        self._events = events

    def sign(self, job: str, request: SignTokens) -> TokensSigned:
        if self._signer is None:
            return TokensSigned(None)
        sign, wait = self._signer.token, request.wait
        return TokensSigned({who: sign(Invited(job, wait, who)) for who in request.people})

    def check(self, job: str, request: CheckVotes) -> VotesChecked:
        votes = [
            self._vote(Invited(job, request.wait, who), text)
            for who, text in request.ballots.items()
        ]
        return VotesChecked(tuple(vote for vote in votes if vote is not None))

    def _vote(self, asked: Invited, text: str) -> Vote | None:
        vote = None if self._signer is None else self._signer.vote(asked, text)
        if vote is None:
            self._events.error(
                "job.vote_unproven", job_id=asked.job, wait=asked.wait, who=asked.who
            )
        return vote
