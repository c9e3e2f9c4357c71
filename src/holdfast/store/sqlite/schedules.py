"""`Schedules` on SQLite: definitions, cursors, and reading the ledger; `ledger` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.job.state import JobState
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import (
    DECLARATION_SECONDS,
    NO_SCOPE,
    Decision,
    Definition,
    LedgerEntry,
    Plan,
    Schedule,
    decode_definition,
    encode_definition,
)
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.ledger import record, unfinished
from holdfast.store.sqlite.rows import (
    LATEST,
    SECOND,
    to_datetime,
    to_json,
    to_micros,
    to_optional_datetime,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs

FORGET_BATCH = 1_000
BEFORE_ALL = -(2**63)


class SqliteSchedules(Verbs):
    async def declare(
        self, schedules: Mapping[str, Definition], since: datetime | None = None
    ) -> None:
        if schedules:
            await self._writer.write(lambda tx: _declare(tx, schedules, since))

    async def put(self, name: str, definition: Definition, revision: int | None = None) -> bool:
        return await self._writer.write(lambda tx: _put(tx, name, definition, revision))

    async def pause(self, names: Sequence[str]) -> list[str]:
        return await self._change("pause", names)

    async def resume(self, names: Sequence[str]) -> list[str]:
        return await self._change("resume", names)

    async def delete(self, names: Sequence[str]) -> list[str]:
        return await self._writer.write(lambda tx: _delete(tx, names)) if names else []

    async def cursors(self, name: str, scopes: Sequence[str]) -> dict[str, datetime]:
        def work(tx: Transaction) -> dict[str, datetime]:
            wanted = {"name": name, "scopes": to_json(scopes)}
            rows = tx.rows(script("schedules/cursors"), wanted)
            return {scope: to_datetime(at) for scope, at in rows}

        return await self._writer.read(work)

    async def own_cursors(self) -> dict[str, datetime]:
        rows = await self._writer.read(lambda tx: tx.rows(script("schedules/own_cursors")))
        return {name: to_datetime(at) for name, at in rows}

    async def unfinished(self, name: str, scopes: Sequence[str]) -> dict[str, list[Live]]:
        return await self._writer.read(lambda tx: unfinished(tx, name, scopes))

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        return await self._writer.write(lambda tx: record(tx, plans)) if plans else []

    async def advance(self, name: str, scope: str, at: datetime) -> None:
        moment = to_micros(at)

        def work(tx: Transaction) -> None:
            sql = steps("schedules/advance")
            values = {"name": name, "scope": scope, "at": moment, "limit": FORGET_BATCH}
            tx.run(sql["advance"], values)
            if scope == NO_SCOPE:
                tx.run(sql["forget"], values)

        await self._writer.write(work)

    async def history(
        self,
        name: str,
        *,
        scope: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[LedgerEntry]:
        until = LATEST + 1 if before is None else to_micros(before)
        return await self._writer.read(lambda tx: _history(tx, name, scope, limit, until))

    async def failed_plans(
        self, name: str, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[LedgerEntry]:
        at, scope = (BEFORE_ALL, "") if after is None else (to_micros(after[0]), after[1])

        def work(tx: Transaction) -> list[LedgerEntry]:
            rows = tx.rows(script("schedules/failed_plans"), (name, at, scope, limit))
            return [_entry(row, {}) for row in rows]

        return await self._writer.read(work)

    async def complain(self, name: str, error: str | None) -> None:
        def work(tx: Transaction) -> None:
            told = None if error is None else clean(error, MESSAGE_LIMIT)
            since = None if error is None else tx.now
            values = {"name": name, "error": told, "since": since}
            tx.run(script("schedules/complain"), values)

        await self._writer.write(work)

    async def prune_ledger(self, limit: int) -> int:
        return await self._writer.write(lambda tx: _prune_ledger(tx, limit))

    async def find(self, names: Sequence[str] = ()) -> list[Schedule]:
        def work(tx: Transaction) -> list[Schedule]:
            wanted = {"names": to_json(names) if names else None}
            return [_schedule(row) for row in tx.rows(script("schedules/find"), wanted)]

        return await self._writer.read(work)

    async def _change(self, step: str, names: Sequence[str]) -> list[str]:
        def work(tx: Transaction) -> list[str]:
            values = {"names": to_json(names), "now": tx.now}
            changed = tx.rows(script(f"schedules/{step}"), values)
            return _told(tx, changed)

        return await self._writer.write(work) if names else []


def _declare(tx: Transaction, schedules: Mapping[str, Definition], since: datetime | None) -> None:
    """Wakes evaluators only if a definition changes: every worker that starts declares all of its
    schedules again."""
    sql = steps("schedules/declare")
    runs_since = tx.now if since is None else to_micros(since)
    known = {name: facts for name, *facts in tx.rows(sql["known"], (to_json(schedules),))}
    for name, definition in schedules.items():
        values = {**_facts(name, definition), "now": tx.now, "since": runs_since}
        was, *code = known.get(name, (None, False, None, None))
        if was == values["definition"]:
            tx.run(sql["confirm"], values)
        elif was is None or _wins(tx.now, runs_since, *code):
            tx.run(sql["declare"], values)
            tx.wake(Topic.SCHEDULES)
        else:
            tx.run(sql["contest"], values)


def _wins(now: int, since: int, edited: bool, code_since: int, code_seen_at: int) -> bool:
    """Whether a program that runs since `since` may change the definition: no operator has edited
    it, and no program that started later still declares it."""
    return not edited and (code_since <= since or code_seen_at < now - DECLARATION_SECONDS * SECOND)


def _put(tx: Transaction, name: str, definition: Definition, revision: int | None) -> bool:
    sql = steps("schedules/put")
    values = {**_facts(name, definition), "now": tx.now, "revision": revision}
    written = tx.rows(sql["edit"], values)
    if not written and not revision:
        written = tx.rows(sql["create"], values)
    return bool(_told(tx, written))


def _facts(name: str, definition: Definition) -> dict[str, object]:
    return {
        "name": name,
        "definition": encode_definition(definition),
        "rule": encode_definition(definition.rule),
        "keep": definition.keep,
    }


def _delete(tx: Transaction, names: Sequence[str]) -> list[str]:
    sql = steps("schedules/delete")
    gone = tx.rows(sql["schedules"], (to_json(names),))
    for step in ("cursors", "ledger", "started"):
        tx.each(sql[step], gone)
    return _told(tx, gone)


def _told(tx: Transaction, changed: Sequence[Row]) -> list[str]:
    if changed:
        tx.wake(Topic.SCHEDULES)
    return sorted(name for (name,) in changed)


def _schedule(row: Row) -> Schedule:
    (
        name, definition, paused, edited, revision, created_at, declared_at,
        error, error_at, paused_at, resumed_at, changed_at,
        rival, rival_at, pruned_from, pruned_until,
    ) = row  # fmt: skip
    return Schedule(
        name=name,
        definition=decode_definition(definition),
        paused=bool(paused),
        edited=bool(edited),
        revision=revision,
        created_at=to_datetime(created_at),
        declared_at=to_optional_datetime(declared_at),
        error=error,
        error_at=to_optional_datetime(error_at),
        paused_at=to_optional_datetime(paused_at),
        resumed_at=to_optional_datetime(resumed_at),
        changed_at=to_optional_datetime(changed_at),
        rival=None if rival is None else decode_definition(rival),
        rival_at=to_optional_datetime(rival_at),
        pruned_from=to_optional_datetime(pruned_from),
        pruned_until=to_optional_datetime(pruned_until),
    )


def _history(
    tx: Transaction, name: str, scope: str | None, limit: int, before: int
) -> list[LedgerEntry]:
    sql = steps("schedules/history")
    wanted = {"name": name, "scope": scope, "before": before, "limit": limit}
    rows = tx.rows(sql["all" if scope is None else "of a scope"], wanted)
    started = to_json(job_id for *_, job_id in rows if job_id is not None)
    jobs = {job_id: facts for job_id, *facts in tx.rows(sql["jobs"], (started,))}
    return [_entry(row, jobs) for row in rows]


def _entry(row: Row, jobs: Mapping[str, Sequence[Any]]) -> LedgerEntry:
    """`jobs` has the facts of each job by its id; a job that was pruned is not there."""
    schedule, scope, at, decision, reason, recorded_at, job_id = row
    state, attempts, claimed_at, finished_at, result, error = jobs.get(job_id) or (None,) * 6
    return LedgerEntry(
        schedule=schedule,
        scope=scope,
        at=to_datetime(at),
        decision=Decision(decision),
        reason=reason,
        recorded_at=to_datetime(recorded_at),
        job_id=None if job_id is None else JobId(job_id),
        state=None if state is None else JobState(state),
        attempts=attempts,
        claimed_at=to_optional_datetime(claimed_at),
        finished_at=to_optional_datetime(finished_at),
        result_json=result,
        error=error,
    )


def _prune_ledger(tx: Transaction, limit: int) -> int:
    sql = steps("schedules/prune_ledger")
    over = tx.rows(sql["over"], (tx.now, limit))
    tx.each(sql["forget"], [{"name": name, "at": at} for name, _, at, fired in over if fired])
    rows = [(name, scope, at) for name, scope, at, _ in over]
    tx.each(sql["ledger"], rows)
    tx.each(sql["started"], rows)
    return len(over)
