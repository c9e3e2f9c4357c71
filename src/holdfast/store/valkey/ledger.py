"""Reading the ledger: how its rows are named, and what became of their jobs.

A plan time is 15 hexadecimal digits that sort as text, and are exact where a score, a floating
point number, would not be. `lua/parts/ledger.lua` tells what they are part of.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdfast.job.ids import JobId, partition_bits
from holdfast.job.record import Job
from holdfast.schedule.model import Decision, LedgerEntry
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.moments import EPOCH, SECOND, to_datetime, to_micros
from holdfast.store.valkey.reading import get
from holdfast.store.valkey.rows import known, to_ledger_row

BITE = 1_000
DIGITS = 15
HIGHEST = 16**DIGITS - 1
EARLIEST = to_micros(datetime.min.replace(tzinfo=UTC)) - 86_400 * SECOND


def home(connections: Connections, schedule: str) -> int:
    """The partition of a schedule, of all that belongs to it, and of the jobs it starts."""
    return partition_bits(schedule) % connections.options.partitions


def instant(moment: datetime) -> str:
    return f"{to_micros(moment) - EARLIEST:0{DIGITS}x}"


def from_instant(text: str) -> datetime:
    return EPOCH + timedelta(microseconds=int(text, 16) + EARLIEST)


def _inverted(text: str) -> str:
    return f"{HIGHEST - int(text, 16):0{DIGITS}x}"


def _of_scope(scope: str) -> str:
    return f"{len(scope.encode()):08x}{scope}"


async def history(
    connections: Connections,
    schedule: str,
    scope: str | None,
    limit: int,
    before: datetime | None,
) -> list[LedgerEntry]:
    within = "" if scope is None else _of_scope(scope)
    newest = "0" * DIGITS if before is None else _next(_inverted(instant(before)))
    first = f"[{within}{newest}"
    last = "+" if scope is None else f"[{within}g"
    found: list[LedgerEntry] = []
    while len(found) < limit:
        given = {"schedule": schedule, "scoped": "" if scope is None else "1", "last": last}
        bite = min(limit - len(found), BITE)
        answer = await connections.call(
            "schedules/history",
            home(connections, schedule),
            {**given, "first": first, "limit": bite},
        )
        some = _entries(schedule, answer)
        found += some
        if len(some) < bite:
            break
        newest = _inverted(instant(some[-1].at))
        first = f"({newest}{some[-1].scope}" if scope is None else f"({within}{newest}"
    return await _with_jobs(connections, found)


def _next(inverted: str) -> str:
    """One microsecond earlier: the first that is before."""
    return f"{int(inverted, 16) + 1:0{DIGITS}x}"


async def failed_plans(
    connections: Connections, schedule: str, limit: int, after: tuple[datetime, str] | None
) -> list[LedgerEntry]:
    first = "-" if after is None else f"({instant(after[0])}{after[1]}"
    given = {"schedule": schedule, "first": first, "limit": max(0, limit)}
    answer = await connections.call("schedules/failed_plans", home(connections, schedule), given)
    return _entries(schedule, answer)


def _entries(schedule: str, answer: Sequence[bytes]) -> list[LedgerEntry]:
    return [
        _entry(schedule, name.decode(), row)
        for name, row in zip(answer[::2], answer[1::2], strict=True)
    ]


def _entry(schedule: str, name: str, row: bytes) -> LedgerEntry:
    told = to_ledger_row(row)
    job_id = known(told.job)
    return LedgerEntry(
        schedule=schedule,
        scope=name[8:-DIGITS],
        at=from_instant(_inverted(name[-DIGITS:])),
        decision=Decision(told.decision),
        reason=told.reason,
        recorded_at=to_datetime(told.recorded_at),
        job_id=None if job_id is None else JobId(job_id),
    )


async def _with_jobs(connections: Connections, entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    ids = [entry.job_id for entry in entries if entry.job_id is not None]
    jobs = {job.id: job for job in await get(connections, ids, newest=True)}
    return [_with_job(entry, jobs.get(entry.job_id or JobId(""))) for entry in entries]


def _with_job(entry: LedgerEntry, job: Job | None) -> LedgerEntry:
    if job is None:
        return entry
    error = job.errors[-1] if job.errors else None
    return LedgerEntry(
        schedule=entry.schedule,
        scope=entry.scope,
        at=entry.at,
        decision=entry.decision,
        reason=entry.reason,
        recorded_at=entry.recorded_at,
        job_id=entry.job_id,
        state=job.state,
        attempts=job.attempts,
        claimed_at=job.claimed_at,
        finished_at=job.finished_at,
        result=job.result,
        error=None if error is None else f"{error.kind}: {error.message}",
    )


async def prune(connections: Connections, limit: int) -> int:
    """Schedules take turns: `ledgers` tells which of them have rows whose time is over."""
    now, removed = await connections.now_micros(), 0
    for partition in connections.partitions:
        key = connections.key(partition, "ledgers")
        for name in await connections.command("ZRANGEBYSCORE", key, "-inf", now):
            if removed >= limit:
                return removed
            removed += await _prune_one(connections, partition, name.decode(), limit - removed)
    return removed


async def _prune_one(connections: Connections, partition: int, schedule: str, limit: int) -> int:
    """Past the rows of live jobs, which stay."""
    removed = passed = 0
    while removed < limit:
        bite = min(limit - removed, BITE)
        given = {"schedule": schedule, "offset": passed, "limit": bite}
        gone, stays = await connections.call("schedules/prune_ledger", partition, given)
        removed += gone
        passed += stays
        if gone + stays < bite:
            break
    return removed
