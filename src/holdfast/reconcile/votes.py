"""Signs votes anew that the worker of their job could not prove, once a worker can.

A vote may be signed with a key that the worker of the job lacks: the program that takes answers got
a new key first, or the workers lost an old one. The vote stays in the store, and the job waits for
the next answer of the person. A worker that has the key finds the vote here. It sends what it could
prove as that next answer, signed with a key that all live workers have. If they have none in common
the job may go to a worker that lacks the key again; then a later pass sends it once more.

Keys come with new workers, so the first pass of a worker reads all waits. Each later pass reads
some hundred waits, and the next one continues behind them. A pass that sends something is followed
by one that reads all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Recalled, Sent, SignalLimits, SignalWait
from holdfast.job.vote import Invited, Vote, cast_votes, closing_step, read_vote_signal
from holdfast.store.contract.signals import wait_cursor

if TYPE_CHECKING:
    from holdfast.encryption.signing import Signer

LIMITS = SignalLimits()
_TAKEN = frozenset({Sent.KEPT, Sent.WOKE})
_NOTHING = Recalled([], [])


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
        found = await self.store.steps.recall(list({job: None for job, *_ in asked}))
        proven = [
            (job, signal, one, vote)
            for job, signal, one in asked
            if (vote := _newest_proven(signer, one, found.get(job, _NOTHING))) is not None
        ]
        if not proven:
            return Swept()
        from holdfast.encryption.signing import key_of_vote

        kid = await self._shared_key()
        signals = [
            NewSignal(
                job,
                signal,
                signer.ballot(one, vote, kid),
                key_of_vote(signal),
                before=closing_step(one.wait),
            )
            for job, signal, one, vote in proven
        ]
        sent = await self.store.signals.send(signals, LIMITS)
        taken = sum(one in _TAKEN for one in sent)
        return Swept(found=len(sent), mended=taken, refused=len(sent) - taken)

    async def _shared_key(self) -> str | None:
        """A key of this worker that all live workers have."""
        workers = await self.store.workers.find()
        rings = [set(worker.facts.signing_keys) for worker in workers if worker.alive]
        own = self.options.signing_keys or ()
        return next((kid for kid in own if all(kid in ring for ring in rings)), None)


def _asked_again(waits: Sequence[SignalWait]) -> Iterator[tuple[JobId, str, Invited]]:
    """Whom jobs have asked again, each with the signal that carries their next answer."""
    for wait in waits:
        name = read_vote_signal(wait.signal)
        if name is not None and name.n > 1:
            yield wait.id, wait.signal, Invited(wait.id, name.wait, name.who)


def _newest_proven(signer: Signer, asked: Invited, found: Recalled) -> Vote | None:
    votes = [
        signer.vote(asked, cast.text)
        for cast in cast_votes(found.steps, found.signals)
        if (cast.name.wait, cast.name.who) == (asked.wait, asked.who)
    ]
    return max((vote for vote in votes if vote is not None), key=lambda vote: vote.at, default=None)
