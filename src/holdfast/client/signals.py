"""The verbs on signals: `client.signals.send(job_id, "paid", payment)`."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from holdfast.client.acting import Acts
from holdfast.codec.results import Misfit, ResultType
from holdfast.codec.types import adapter_for
from holdfast.errors import BadOption, PayloadTooLarge, Refused, SignalsFull, UnknownJob
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.call import called_flow, require_users_signal
from holdfast.job.checks import known_job_id
from holdfast.job.signal import (
    LONGEST_NAME,
    NewSignal,
    Sent,
    Signal,
    SignalLimits,
    SignalWait,
)
from holdfast.job.vote import PREFIX as VOTES
from holdfast.store.contract.signals import wait_cursor
from holdfast.store.contract.store import Store

LIMITS = SignalLimits()
PAGE_LIMIT = 1_000


class SignalVerbs:
    """Send signals to jobs, and read who waits for which."""

    def __init__(
        self, store: Store, acts: Acts | None = None, max_payload: int | None = None
    ) -> None:
        self._store = store
        self._acts = acts or Acts()
        self._max_payload = max_payload

    async def send(
        self,
        job_id: str,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
    ) -> Sent:
        """Send a signal to a live job, which gets the value from `ctx.signal(name, …)`.

        Answers `Sent.WOKE` if the job was suspended for it and goes on now. Otherwise the signal is
        kept until the job waits for it: `Sent.KEPT`. A second signal with the same key changes
        nothing: `Sent.DUPLICATE`. Raises `Refused` if the job has ended."""
        job = known_job_id(job_id)
        if checks.text("the name of a signal", name, LONGEST_NAME).startswith(VOTES):
            expected = f"another than {VOTES!r}…: votes are given by client.answer(token, …)"
            raise BadOption("the name of a signal", expected, name)
        signal = NewSignal(
            job,
            require_users_signal(name),
            self._written(name, value),
            uuid4().hex if key is None else checks.text("key", key, LONGEST_NAME),
        )
        told = {"name": name}  # its value may be secret
        act = self._acts.act(self._store, by, Noun.JOBS, Verb.SIGNAL, job, value=told)
        async with act as acting:
            [sent] = await self._store.signals.send([signal], LIMITS, by)
            await self._require_sent(signal, sent)
            acting.changed = int(sent is not Sent.DUPLICATE)
        return sent

    async def of(self, job_id: str) -> list[Signal]:
        """The signals that a job was sent, in their order, with those that it has taken."""
        job = known_job_id(job_id)
        if found := await self._store.signals.of([job]):
            return found[job]
        if not await self._store.jobs.get([job]):
            raise UnknownJob(job_id)
        return []

    async def waits(
        self, *, limit: int = 50, cursor: str | None = None
    ) -> tuple[list[SignalWait], str | None]:
        """The signals that suspended jobs wait for, by job, and the cursor of the next page, None
        if this was the last."""
        checks.count("limit", limit, most=PAGE_LIMIT)
        if cursor is not None:
            known_job_id(cursor.partition(" ")[0])
        found = await self._store.signals.waits(limit, cursor)
        of_users = [wait for wait in found if called_flow(wait.signal) is None]
        return of_users, wait_cursor(found[-1]) if len(found) == limit else None

    def _written(self, name: str, value: Any) -> str:
        try:
            text = ResultType(Any, adapter_for(type(value))).encode(value)
        except Misfit as misfit:
            raise BadOption(f"the value of signal {name!r}", f"JSON ({misfit})", value) from misfit
        if self._max_payload is not None and (size := len(text.encode())) > self._max_payload:
            raise PayloadTooLarge(f"signal {name!r}: its value", size, self._max_payload)
        return text

    async def _require_sent(self, signal: NewSignal, sent: Sent) -> None:
        match sent:
            case Sent.UNKNOWN:
                raise UnknownJob(signal.id)
            case Sent.ENDED:
                found = await self._store.jobs.get([signal.id])
                state = found[0].state if found else "gone"
                raise Refused(f"job {signal.id} is {state}: only a live job can be sent a signal")
            case Sent.FULL:
                raise SignalsFull(signal.id, LIMITS.number, LIMITS.size)
