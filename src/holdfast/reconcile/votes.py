"""Signs votes anew that the worker of their job could not prove, once a worker can.

A vote may be signed with a key that the worker of the job lacks: the program that takes answers got
a new key first, or the workers lost an old one. The vote stays in the store, and the job waits for
the next answer of the person. A worker that has the key finds the vote here. It sends what it could
prove as that next answer, signed with a key that all live workers have which can run the job. If
they have none in common, it sends nothing: the job would wake, and might find a worker that lacks
the key again. A later pass sees that other workers are there. If nobody can run the job, its next
worker is not known, so the first key is tried.

An answer that is sent may be in vain all the same: a worker may come meanwhile, or have another key
of the same id. So there are `MOST_COPIES` of a vote with one key.

Keys come with new workers, so the first pass of a worker reads all waits. Each later pass reads
some hundred waits, and the next one continues behind them. A pass that sends something is followed
by one that reads all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.fleet.reading import able, labels_of
from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Recalled, Sent, SignalLimits, SignalWait
from holdfast.job.vote import (
    Invited,
    Vote,
    cast_votes,
    closing_step,
    read_ballot,
    read_vote_signal,
)
from holdfast.store.contract.signals import wait_cursor

if TYPE_CHECKING:
    from holdfast.encryption.signing import Signer

LIMITS = SignalLimits()
MOST_COPIES = 3
"""How many answers of a person may say the same by one key; the answer of the person is the first.
"""
_TAKEN = frozenset({Sent.KEPT, Sent.WOKE})
_NOTHING = Recalled([], [])


class _Provable(NamedTuple):
    """The newest vote of a person that this worker can prove, whom the job has asked again.
    `signal` carries the next answer. `copies`: how many answers have this vote, by their keys."""

    asked: Invited
    signal: str
    vote: Vote
    copies: Mapping[str, int]

    @property
    def job(self) -> JobId:
        return JobId(self.asked.job)


class VotesReconciler(Reconciler):
    """Looks at jobs that have asked a person again."""

    name = "votes"
    _behind: str | None = None
    _reads_all = True
    _has_sent = False

    @property
    def interval(self) -> float:
        return self.options.votes

    @cached_property
    def _signer(self) -> Signer | None:
        if self.options.signing_keys is None:
            return None
        from holdfast.encryption.signing import Signer  # most programs have no keys

        return Signer(self.options.signing_keys)

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        """A worker without keys can prove nothing, and reads nothing."""
        if self._signer is None:
            return Swept(), None
        waits = await self.store.signals.waits(self.options.batch, self._behind)
        self._behind = wait_cursor(waits[-1]) if len(waits) == self.options.batch else None
        swept = await self._sent_anew(self._signer, waits)
        self._has_sent |= swept.mended > 0
        if self._behind is None:
            self._reads_all, self._has_sent = self._has_sent, False
            return swept, None
        return swept, self._behind if self._reads_all else None

    async def _sent_anew(self, signer: Signer, waits: Sequence[SignalWait]) -> Swept:
        asked = list(_asked_again(waits))
        if not asked:
            return Swept()
        found = await self.store.steps.recall(list({JobId(one.job): None for one, _ in asked}))
        proven = [
            provable
            for one, signal in asked
            if (provable := _provable(signer, one, signal, found.get(JobId(one.job), _NOTHING)))
        ]
        if not proven:
            return Swept()
        from holdfast.encryption.signing import key_of_vote

        shared = await self._shared_keys(list({one.job: None for one in proven}))
        signals = [
            NewSignal(
                one.job,
                one.signal,
                signer.ballot(one.asked, one.vote, kid),
                key_of_vote(one.signal),
                before=closing_step(one.asked.wait),
            )
            for one in proven
            if (kid := _key_of(one, shared.get(one.job, ()))) is not None
        ]
        sent = await self.store.signals.send(signals, LIMITS) if signals else []
        taken = sum(one in _TAKEN for one in sent)
        skipped = len(proven) - len(sent)
        return Swept(found=len(proven), mended=taken, refused=len(sent) - taken, skipped=skipped)

    async def _shared_keys(self, ids: Sequence[JobId]) -> dict[JobId, list[str]]:
        """The keys of this worker that all live workers have which can run the job, in the order of
        this worker."""
        workers = await self.store.workers.find()
        jobs = await self.store.jobs.get(ids)
        labels = await labels_of(self.store, jobs)
        own = self.options.signing_keys or ()
        shared = {}
        for job in jobs:
            rings = [set(one.facts.signing_keys) for one in able(job, workers, labels[job.id])]
            shared[job.id] = [kid for kid in own if all(kid in ring for ring in rings)]
        return shared


def _asked_again(waits: Sequence[SignalWait]) -> Iterator[tuple[Invited, str]]:
    """Whom jobs have asked again, each with the signal that carries their next answer."""
    for wait in waits:
        name = read_vote_signal(wait.signal)
        if name is not None and name.n > 1:
            yield Invited(wait.id, name.wait, name.who), wait.signal


def _provable(signer: Signer, asked: Invited, signal: str, found: Recalled) -> _Provable | None:
    ballots = [
        ballot
        for cast in cast_votes(found.steps, found.signals)
        if (cast.name.wait, cast.name.who) == (asked.wait, asked.who)
        and signer.vote(asked, cast.text) is not None
        and (ballot := read_ballot(cast.text)) is not None
    ]
    newest = max((ballot.vote for ballot in ballots), key=lambda vote: vote.at, default=None)
    if newest is None:
        return None
    copies = Counter(ballot.kid for ballot in ballots if ballot.vote == newest)
    return _Provable(asked, signal, newest, copies)


def _key_of(one: _Provable, shared: Sequence[str]) -> str | None:
    """The key to sign with: the first of these that has not been tried often enough."""
    return next((kid for kid in shared if one.copies.get(kid, 0) < MOST_COPIES), None)
