"""`client.answer(token, …)`: the vote of a person who was asked.

The signature is checked before anything else, and without it the store is not asked. Every refusal
looks the same from outside and takes the same time: a caller learns neither whether the job exists,
nor whether the wait is over, nor what was answered before. Operators learn the reason by the event
`approval.refused` and, where a token was signed, by the audit. The token is told to nobody.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from hashlib import sha256

from holdfast.client.acting import Acts
from holdfast.encryption.keyring import Keyring
from holdfast.encryption.signing import Signer
from holdfast.errors import AnswerRefused, BadOption, HoldfastError
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Sent, SignalLimits
from holdfast.job.vote import Answered, Invited, Vote, closing_step
from holdfast.store.contract.store import Store

REFUSED_SECONDS = 0.05
"""A refusal takes at least so long, whatever it took to find out. Looks at a store take less."""
TOLD_SECONDS = 1.0
"""How often tokens are told that nobody has signed."""
LONGEST_NOTE = 2_000
NO_KEYS = "set here as where the people were asked, such as by HOLDFAST_SIGNING_KEYS"
LIMITS = SignalLimits()
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
            sent = await self._send(asked, signer.ballot(asked, vote), whose)
            if sent is Sent.DUPLICATE or sent is Sent.ENDED:
                vote = await self._repeated(signer, asked, answered, WHY[sent])
            elif sent in WHY:
                raise _NotTaken(WHY[sent])
            else:
                acting.changed = 1
        return vote

    async def _send(self, asked: Invited, ballot: str, by: str) -> Sent:
        signal = NewSignal(
            JobId(asked.job), asked.signal, ballot, _key(asked), before=closing_step(asked.wait)
        )
        [sent] = await self._store.signals.send([signal], LIMITS, by)
        return sent

    async def _repeated(self, signer: Signer, asked: Invited, answered: Answered, why: str) -> Vote:
        """The same answer again is answered with the vote that counts, as if it were new."""
        text = await self._ballot(asked)
        vote = None if text is None else signer.vote(asked, text)
        if vote is None or Answered(vote.approve, vote.note) != answered:
            raise _NotTaken(why)
        return vote

    async def _ballot(self, asked: Invited) -> str | None:
        """The vote that the job was sent: kept, or recorded as a step."""
        job = JobId(asked.job)
        for one in (await self._store.signals.of([job])).get(job, []):
            if one.key == _key(asked) and one.taken_by is None:
                return one.value_json
        steps = (await self._store.steps.load([job])).get(job, [])
        return next((one.result_json for one in steps if one.name == asked.signal), None)


def _key(asked: Invited) -> str:
    """One vote for each person of a wait, however long their names are."""
    return f"vote {sha256(asked.signal.encode()).hexdigest()}"


def _read(answer: object) -> Answered:
    if isinstance(answer, bool):
        return Answered(answer)
    if not isinstance(answer, Mapping) or not {"approve"} <= set(answer) <= {"approve", "note"}:
        raise BadOption("answer", 'True, False or {"approve": True, "note": "ok"}', answer)
    note = answer.get("note")
    text = None if note in (None, "") else checks.text("note", note, LONGEST_NOTE)
    return Answered(checks.flag("approve", answer["approve"]), text)
