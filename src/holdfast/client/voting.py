"""`client.answer(token, …)`: the vote of a person who was asked.

The signature is checked before anything else, and without it the store is not asked. Every refusal
looks the same from outside and takes the same time: a caller learns neither whether the job exists,
nor whether the wait is over, nor what was answered before. Operators learn the reason by the event
`approval.refused` and, where a token was signed, by the audit. The token is told to nobody.

One vote of each person counts. A person may answer again only if the job asks again, because its
worker could not prove the vote that is there, or if that vote is none that anybody with a key made.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping

from holdfast.client.acting import Acts
from holdfast.encryption.keyring import Keyring
from holdfast.encryption.signing import Signer, key_of_vote
from holdfast.errors import AnswerRefused, BadOption, HoldfastError
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.sealed import is_sealed
from holdfast.job.signal import NewSignal, Recalled, Sent, SignalLimits
from holdfast.job.vote import (
    Answered,
    CastVote,
    Invited,
    Vote,
    cast_votes,
    closing_step,
    read_ballot,
    read_vote_signal,
)
from holdfast.store.contract.store import Store

REFUSED_SECONDS = 0.05
"""A refusal takes at least so long, whatever it took to find out. Looks at a store take less."""
TOLD_SECONDS = 1.0
"""How often tokens are told that nobody has signed."""
LONGEST_NOTE = 2_000
NO_KEYS = "set here as where the people were asked, such as by HOLDFAST_SIGNING_KEYS"
LIMITS = SignalLimits(number=2 * SignalLimits().number, size=2 * SignalLimits().size)
"""Twice what anything else may take that is sent to a job, so that it keeps nobody from answering:
neither other signals nor votes that workers have signed anew."""
WHY = {
    Sent.UNKNOWN: "the store has no such job",
    Sent.ENDED: "the job has ended",
    Sent.DUPLICATE: "the person has answered already, and otherwise",
    Sent.LATE: "the votes are decided, or their time is over",
    Sent.FULL: "the job can take no more signals",
}


class _NotTaken(HoldfastError):
    """Why an answer is refused, for operators only."""


class Voting:
    """Takes the answers of people."""

    def __init__(self, store: Store, acts: Acts, keys: Keyring | None) -> None:
        self._store = store
        self._acts = acts
        self._signer = None if keys is None else Signer(keys)
        self._unsigned = 0
        self._told_at = -math.inf

    async def answer(self, token: str, answer: object, by: str | None) -> Vote:
        if self._signer is None:
            raise BadOption("signing_keys", NO_KEYS, None)
        answered, began = _read(answer), time.monotonic()
        checks.kind("token", token, str, "text")
        asked = self._signer.read(token)
        try:
            if asked is None:
                raise _NotTaken("no key of this program has signed the token")
            return await self._taken(self._signer, asked, answered, by)
        except _NotTaken as why:
            self._tell(asked, str(why))
            await asyncio.sleep(max(0.0, began + REFUSED_SECONDS - time.monotonic()))
        raise AnswerRefused

    def tokens(self, job: JobId, wait: str, people: Iterable[str]) -> dict[str, str]:
        if self._signer is None:
            raise BadOption("signing_keys", NO_KEYS, None)
        return {who: self._signer.token(Invited(job, wait, who)) for who in people}

    def _tell(self, asked: Invited | None, reason: str) -> None:
        """Whoever tries tokens could fill a log, so those that nobody has signed are told together,
        and nothing of what they say: their sender made it up."""
        job, wait, who = (None, None, None) if asked is None else (asked.job, asked.wait, asked.who)
        count = 1
        if asked is None:
            self._unsigned += 1
            if time.monotonic() < self._told_at + TOLD_SECONDS:
                return
            count, self._unsigned, self._told_at = self._unsigned, 0, time.monotonic()
        self._acts.events.warning(
            "approval.refused", job_id=job, wait=wait, who=who, reason=reason, count=count
        )

    async def _taken(
        self, signer: Signer, asked: Invited, answered: Answered, by: str | None
    ) -> Vote:
        """An act in any case: it is the person's, unless somebody answers for the person."""
        told = {"wait": asked.wait, "who": asked.who, "approve": answered.approve}
        whose = asked.who if by is None else by
        act = self._acts.act(self._store, whose, Noun.JOBS, Verb.ANSWER, asked.job, value=told)
        async with act as acting:
            at = await self._store.now()
            vote = Vote(asked.who, answered.approve, at, answered.note)
            signal = self._signal(signer, asked, answered, await self._recalled(asked))
            sent = await self._send(asked, signal, signer.ballot(asked, vote), whose)
            if sent is Sent.DUPLICATE or sent is Sent.ENDED:
                vote = await self._repeated(signer, asked, answered, WHY[sent])
            elif sent in WHY:
                raise _NotTaken(WHY[sent])
            else:
                acting.changed = 1
        return vote

    def _signal(self, signer: Signer, asked: Invited, answered: Answered, found: Recalled) -> str:
        """The signal that carries this answer: that of the vote which is there, and then it is a
        duplicate, unless the person may answer again."""
        casts = [
            cast
            for cast in cast_votes(found.steps, found.signals)
            if (cast.name.wait, cast.name.who) == (asked.wait, asked.who)
        ]
        last = max((cast.name.n for cast in casts), default=0)
        awaited = _awaited(asked, found)
        if awaited > last and not any(_is_same(signer, asked, answered, cast) for cast in casts):
            return asked.nth_signal(awaited)
        if all(_is_forged(signer, asked, cast) for cast in casts):
            return asked.nth_signal(last + 1)
        return asked.nth_signal(last)

    async def _send(self, asked: Invited, signal: str, ballot: str, by: str) -> Sent:
        new = NewSignal(
            JobId(asked.job), signal, ballot, key_of_vote(signal), before=closing_step(asked.wait)
        )
        [sent] = await self._store.signals.send([new], LIMITS, by)
        return sent

    async def _repeated(self, signer: Signer, asked: Invited, answered: Answered, why: str) -> Vote:
        """The same answer again is answered with the vote that counts, as if it were new."""
        found = await self._recalled(asked)
        votes = [signer.vote(asked, cast.text) for cast in cast_votes(found.steps, found.signals)]
        proven = [vote for vote in votes if vote is not None]
        vote = max(proven, key=lambda vote: vote.at, default=None)
        if vote is None or Answered(vote.approve, vote.note) != answered:
            raise _NotTaken(why)
        return vote

    async def _recalled(self, asked: Invited) -> Recalled:
        """What the job has recorded, and what it was sent."""
        job = JobId(asked.job)
        return (await self._store.steps.recall([job])).get(job, Recalled([], []))


def _awaited(asked: Invited, found: Recalled) -> int:
    """The number of the answer of this person that the job waits for; 0 if it waits for none. What
    it waited for before its last suspension is history."""
    waits = [step for step in found.steps if step.awaits is not None]
    newest = max((step.fence for step in waits), default=0)
    names = [read_vote_signal(step.awaits or "") for step in waits if step.fence == newest]
    return max(
        (one.n for one in names if one and (one.wait, one.who) == (asked.wait, asked.who)),
        default=0,
    )


def _is_same(signer: Signer, asked: Invited, answered: Answered, cast: CastVote) -> bool:
    """Whether this vote says the same and has the key that a new one would have: then that one
    could be proven nowhere else."""
    vote, ballot = signer.vote(asked, cast.text), read_ballot(cast.text)
    return (
        vote is not None
        and ballot is not None
        and ballot.kid == signer.kid
        and Answered(vote.approve, vote.note) == answered
    )


def _is_forged(signer: Signer, asked: Invited, cast: CastVote) -> bool:
    """Whether nobody with a key made this vote. Of one that this program cannot read, or whose key
    it lacks, it does not know."""
    if is_sealed(cast.text):
        return False
    ballot = read_ballot(cast.text)
    is_known = ballot is None or signer.knows(ballot.kid)
    return is_known and signer.vote(asked, cast.text) is None


def _read(answer: object) -> Answered:
    if isinstance(answer, bool):
        return Answered(answer)
    if not isinstance(answer, Mapping) or not {"approve"} <= set(answer) <= {"approve", "note"}:
        raise BadOption("answer", 'True, False or {"approve": True, "note": "ok"}', answer)
    note = answer.get("note")
    text = None if note in (None, "") else checks.text("note", note, LONGEST_NOTE)
    return Answered(checks.flag("approve", answer["approve"]), text)
