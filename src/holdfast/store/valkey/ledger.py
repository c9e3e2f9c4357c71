"""The ledger of plans: it is written with the jobs that plans start and cancel, read, and pruned.

A script sees one partition. So a plan's job must lie in the partition of its schedule, and the ids
of such jobs are minted beside the schedule's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from holdfast.errors import BadOption, StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.record import Job, NewJob
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import Decision, LedgerEntry, Plan
from holdfast.store.valkey.connection import Connections, ValkeyVerbs, batches
from holdfast.store.valkey.errors import connection_lost
from holdfast.store.valkey.inserting import job_row, require_in_reach
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.plan_times import (
    DIGITS,
    home,
    instant,
    inverted,
    next_inverted,
    of_scope,
    scope_and_time,
)
from holdfast.store.valkey.reading import whole_jobs
from holdfast.store.valkey.requests import PlanRow
from holdfast.store.valkey.rows import known, to_ledger_row

PLAN_BATCH = 500  # plans of one script
ROUND_BATCH = 8_000  # plans that share a base of arrival numbers
LEDGER_BATCH = 1_000  # rows that one script reads or removes


class Ledger(ValkeyVerbs):
    """The rows of all plans."""

    # Writing

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        """Of two plans for one row only the first is sent."""
        first: dict[tuple[str, str, str], int] = {}
        for index, plan in enumerate(plans):
            first.setdefault((plan.schedule, plan.scope, instant(plan.at)), index)
        asked = list(first.values())
        _require_beside_schedules(self._connections, [plans[index] for index in asked])
        written: set[int] = set()
        for some in batches(asked, ROUND_BATCH):
            written |= await self._record_round(plans, some)
        return [index in written for index in range(len(plans))]

    async def _record_round(self, plans: Sequence[Plan], asked: Sequence[int]) -> set[int]:
        base = await self._connections.arrivals(1)
        places: dict[int, list[int]] = {}
        for index in asked:
            places.setdefault(home(self._connections, plans[index].schedule), []).append(index)
        numbers = {index: number for number, index in enumerate(asked)}
        written: set[int] = set()
        for partition, mine in places.items():
            for some in batches(mine, PLAN_BATCH):
                rows = [_row(plans[index], numbers[index]) for index in some]
                answer = await self._record_batch(partition, {"arrival": base, "plans": rows})
                written |= {index for index, wrote in zip(some, answer, strict=True) if wrote}
        return written

    async def _record_batch(self, partition: int, given: Mapping[str, object]) -> list[int]:
        """If the connection is lost, the call is repeated once and says so: then the script
        answers True for the rows that the lost call wrote."""
        try:
            return await self._call(partition, {**given, "repeated": ""})
        except StoreUnavailable as error:
            cause = error.__cause__
            if not (isinstance(cause, Exception) and connection_lost(cause)):
                raise
        return await self._call(partition, {**given, "repeated": "1"})

    async def _call(self, partition: int, given: Mapping[str, object]) -> list[int]:
        answer: list[int] = await self._connections.call(
            "schedules/record", partition, given, again=False
        )
        return answer

    # Reading

    async def history(
        self, schedule: str, scope: str | None, limit: int, before: datetime | None
    ) -> list[LedgerEntry]:
        within = "" if scope is None else of_scope(scope)
        newest = "0" * DIGITS if before is None else next_inverted(inverted(instant(before)))
        first = f"[{within}{newest}"
        last = "+" if scope is None else f"[{within}g"
        given = {"schedule": schedule, "scoped": "" if scope is None else "1", "last": last}
        partition = home(self._connections, schedule)
        found: list[LedgerEntry] = []
        while len(found) < limit:
            size = min(limit - len(found), LEDGER_BATCH)
            answer = await self._connections.call(
                "schedules/history", partition, {**given, "first": first, "limit": size}
            )
            some = _entries(schedule, answer)
            found += some
            if len(some) < size:
                break
            newest = inverted(instant(some[-1].at))
            first = f"({newest}{some[-1].scope}" if scope is None else f"({within}{newest}"
        return await self._with_jobs(found)

    async def failed_plans(
        self, schedule: str, limit: int, after: tuple[datetime, str] | None
    ) -> list[LedgerEntry]:
        first = "-" if after is None else f"({instant(after[0])}{after[1]}"
        given = {"schedule": schedule, "first": first, "limit": max(0, limit)}
        partition = home(self._connections, schedule)
        answer = await self._connections.call("schedules/failed_plans", partition, given)
        return _entries(schedule, answer)

    async def _with_jobs(self, entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
        ids = [entry.job_id for entry in entries if entry.job_id is not None]
        found = await whole_jobs(self._connections, ids, newest_error=True)
        jobs = {job.id: job for job in found}
        return [_with_job(entry, jobs.get(entry.job_id or JobId(""))) for entry in entries]

    # Pruning

    async def prune(self, limit: int) -> int:
        """The schedules take turns: the set `ledgers` says which of them have rows whose time is
        over."""
        now, removed = await self._connections.now_micros(), 0
        for partition in self._connections.partitions:
            key = self._connections.key(partition, "ledgers")
            for name in await self._connections.command("ZRANGEBYSCORE", key, "-inf", now):
                if removed >= limit:
                    return removed
                removed += await self._prune_schedule(partition, name.decode(), limit - removed)
        return removed

    async def _prune_schedule(self, partition: int, schedule: str, limit: int) -> int:
        """The rows of live jobs stay, and are passed over."""
        removed = passed = 0
        while removed < limit:
            size = min(limit - removed, LEDGER_BATCH)
            given = {"schedule": schedule, "offset": passed, "limit": size}
            gone, stays = await self._connections.call("schedules/prune_ledger", partition, given)
            removed += gone
            passed += stays
            if gone + stays < size:
                break
        return removed


def _require_beside_schedules(connections: Connections, plans: Sequence[Plan]) -> None:
    if connections.options.partitions == 1:
        return
    jobs = [(plan, job) for plan in plans if (job := _job(plan)) is not None]
    require_in_reach(connections, [job for _, job in jobs])
    for plan, job in jobs:
        _require_beside(connections, plan, "a job", job.id)
    for plan in plans:
        for job_id in plan.cancel:
            _require_beside(connections, plan, "a predecessor to cancel", job_id)


def _require_beside(connections: Connections, plan: Plan, what: str, job_id: JobId) -> None:
    if connections.partition_of(job_id) != home(connections, plan.schedule):
        raise BadOption(
            f"id of {what} of the schedule {plan.schedule!r}",
            "one that new_job_id(beside=schedule) mints: in a store of several partitions a plan's "
            "job lies where its schedule does",
            job_id,
        )


def _job(plan: Plan) -> NewJob | None:
    return plan.job if plan.decision is Decision.FIRED else None


def _row(plan: Plan, number: int) -> PlanRow:
    job = _job(plan)
    return PlanRow(
        schedule=plan.schedule,
        scope=plan.scope,
        at=instant(plan.at),
        decision=plan.decision.value,
        reason=clean(plan.reason, MESSAGE_LIMIT),
        out_of_turn=not plan.moves_cursor,
        job=False if job is None else job_row(job, number),
        cancel=plan.cancel,
        replaced=f"replaced by the plan of {plan.at.astimezone(UTC).isoformat()}",
        beside=False if plan.beside is None else list(dict.fromkeys(plan.beside)),
    )


def _entries(schedule: str, answer: Sequence[bytes]) -> list[LedgerEntry]:
    return [
        _entry(schedule, name.decode(), row)
        for name, row in zip(answer[::2], answer[1::2], strict=True)
    ]


def _entry(schedule: str, name: str, row: bytes) -> LedgerEntry:
    scope, at = scope_and_time(name)
    told = to_ledger_row(row)
    job_id = known(told.job)
    return LedgerEntry(
        schedule=schedule,
        scope=scope,
        at=at,
        decision=Decision(told.decision),
        reason=told.reason,
        recorded_at=to_datetime(told.recorded_at),
        job_id=None if job_id is None else JobId(job_id),
    )


def _with_job(entry: LedgerEntry, job: Job | None) -> LedgerEntry:
    if job is None:
        return entry
    error = job.errors[-1] if job.errors else None
    return msgspec.structs.replace(
        entry,
        state=job.state,
        attempts=job.attempts,
        claimed_at=job.claimed_at,
        finished_at=job.finished_at,
        result_json=job.result_json,
        error=None if error is None else f"{error.kind}: {error.message}",
    )
