"""Steps on Valkey: a hash for each job that has some."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.signal import Recalled
from holdfast.job.step import Step, StepRecord
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.layout import StepRow
from holdfast.store.valkey.moments import finite, to_datetime, to_optional_datetime
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.requests import NewStepRow
from holdfast.store.valkey.rows import known, readable
from holdfast.store.valkey.signals import to_signals

_to_step_row = msgspec.msgpack.Decoder(StepRow).decode


class ValkeySteps(ValkeyVerbs):
    """See `holdfast.store.contract.steps.Steps` for what each verb promises."""

    async def record(self, records: Sequence[StepRecord]) -> list[bool]:
        places = self._connections.places_by_partition([one.id for one in records])
        calls = [
            ("steps/record", partition, {"chosen": [new_step_row(records[n]) for n in mine]})
            for partition, mine in places.items()
        ]
        kept = [False] * len(records)
        answers = await self._connections.call_each(calls) if calls else []
        for mine, answer in zip(places.values(), answers, strict=True):
            for n, is_ours in zip(mine, answer, strict=True):
                kept[n] = bool(is_ours)
        if not all(kept):
            await self._connections.require_marked(places)
        return kept

    async def load(self, ids: Sequence[JobId]) -> dict[JobId, list[Step]]:
        wanted = list(dict.fromkeys(ids))
        to = self._connections
        reads = [("HGETALL", to.key(to.partition_of(job), f"st:{job}")) for job in wanted]
        answers = await to.commands(reads) if reads else []
        some = zip(wanted, answers, strict=True)
        return {job: _steps(fields) for job, fields in some if fields}

    async def recall(self, ids: Sequence[JobId]) -> dict[JobId, Recalled]:
        wanted = list(dict.fromkeys(ids))
        to = self._connections
        reads = [
            ("HGETALL", to.key(to.partition_of(job), f"{kind}:{job}"))
            for job in wanted
            for kind in ("st", "sg")
        ]
        answers = await to.commands(reads) if reads else []
        some = zip(wanted, answers[::2], answers[1::2], strict=True)
        return {
            job: to_recalled(of_steps, of_signals)
            for job, of_steps, of_signals in some
            if of_steps or of_signals
        }


def new_step_row(one: StepRecord) -> NewStepRow:
    return NewStepRow(
        one.id,
        one.fence,
        one.name,
        one.n,
        one.tries,
        _or_false(one.result),
        _or_false(one.kind),
        _or_false(one.message),
        _or_false(one.version),
        False if one.seconds is None else finite(one.seconds),
        _or_false(one.awaits),
        one.takes or False,
        _or_false(one.undo),
    )


def to_recalled(of_steps: Sequence[bytes], of_signals: Sequence[bytes]) -> Recalled:
    """What the hashes of a job say."""
    return Recalled(_steps(of_steps), to_signals(of_signals))


def _or_false(text: str | None) -> str | bool:
    return False if text is None else text


def _steps(fields: Sequence[bytes]) -> list[Step]:
    """The steps of a job from its hash, without those that nobody can read."""
    read = [readable(_step, name, row) for name, row in paired(fields)]
    there = [step for step in read if step is not None]
    return sorted(there, key=lambda step: (step.n, step.name))


def _step(name: str, blob: bytes) -> Step:
    row = _to_step_row(blob)
    return Step(
        name=name,
        n=row.n,
        fence=row.fence,
        tries=row.tries,
        at=to_datetime(row.at),
        result_json=known(row.result),
        kind=known(row.kind),
        message=known(row.message),
        version=known(row.version),
        until=to_optional_datetime(row.until),
        awaits=known(row.awaits),
        undo=known(row.undo),
    )
