"""Schedules: their arguments, headers and errors are encrypted, and the jobs of their plans.

A program declares its schedules again and again, and a store compares what is declared with what it
has. So the same text is always encrypted to the same. Where another key encrypted what means the
same, that is declared again as it stands; only the first declaration of a program encrypts it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from holdfast.encryption.sealing import Owner
from holdfast.job.sealed import is_sealed, read_envelope
from holdfast.schedule.model import Decision, Definition, LedgerEntry, Plan, Schedule
from holdfast.store.contract.schedules import Schedules
from holdfast.store.sealed.records import Records, opened, seal_cut, shown_or_opened

QUOTING = frozenset({Decision.FAILED, Decision.MISSED})
"""Decisions whose reason may quote an exception; any other reason is worded by Holdfast."""
_replace = msgspec.structs.replace


class SealedSchedules:
    def __init__(self, schedules: Schedules, records: Records) -> None:
        self._schedules = schedules
        self._records = records
        self._declared: set[str] = set()
        self.pause = schedules.pause
        self.resume = schedules.resume
        self.delete = schedules.delete
        self.cursors = schedules.cursors
        self.own_cursors = schedules.own_cursors
        self.unfinished = schedules.unfinished
        self.advance = schedules.advance
        self.prune_ledger = schedules.prune_ledger

    def _owner(self, name: str) -> Owner:
        return self._records.sealing.of(f"schedule {name}")

    # What goes into the store ------------------------------------------------------------

    async def declare(
        self, schedules: Mapping[str, Definition], since: datetime | None = None
    ) -> None:
        there = {one.name: one for one in await self._schedules.find(list(schedules))}
        hidden = {
            name: self._again(name, definition, there.get(name))
            for name, definition in schedules.items()
        }
        await self._schedules.declare(hidden, since)
        self._declared |= schedules.keys()

    def _again(self, name: str, declared: Definition, there: Schedule | None) -> Definition:
        for stored in () if there is None else (there.definition, there.rival):
            if stored is None or self._opened(name, stored) != declared:
                continue
            if name in self._declared or self._is_of_the_first_key(stored):
                return stored
        return self._hidden(name, declared)

    def _is_of_the_first_key(self, stored: Definition) -> bool:
        sealed = is_sealed(stored.args)
        return sealed and read_envelope(stored.args).kid == self._records.sealing.first

    async def put(self, name: str, definition: Definition, revision: int | None = None) -> bool:
        return await self._schedules.put(name, self._hidden(name, definition), revision)

    def _hidden(self, name: str, definition: Definition) -> Definition:
        owner, task, headers = self._owner(name), definition.task, definition.headers
        args = definition.args
        if not is_sealed(args):  # a key that is missing here keeps nobody from editing the rest
            args = owner.seal("args", args, task, steady=True)
        if headers is not None and not is_sealed(headers):
            headers = owner.seal("headers", headers, task, steady=True)
        return _replace(definition, args=args, headers=headers)

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        return await self._schedules.record([self._plan(plan) for plan in plans])

    def _plan(self, plan: Plan) -> Plan:
        reason = plan.reason
        if reason and plan.decision in QUOTING and self._records.hides_errors:
            reason = seal_cut(self._owner(plan.schedule), "reason", reason)
        job = None if plan.job is None else self._records.new_job(plan.job)
        return _replace(plan, reason=reason, job=job)

    async def complain(self, name: str, error: str | None) -> None:
        if error is not None and self._records.hides_errors:
            error = seal_cut(self._owner(name), "error", error)
        await self._schedules.complain(name, error)

    # What comes out of it ----------------------------------------------------------------

    async def find(self, names: Sequence[str] = ()) -> list[Schedule]:
        return [self._schedule(one) for one in await self._schedules.find(names)]

    def _schedule(self, found: Schedule) -> Schedule:
        name, rival = found.name, found.rival
        return _replace(
            found,
            definition=self._opened(name, found.definition),
            rival=None if rival is None else self._opened(name, rival),
            error=shown_or_opened(self._owner(name), "error", found.error),
        )

    def _opened(self, name: str, stored: Definition) -> Definition:
        owner, headers = self._owner(name), stored.headers
        if headers is not None:
            headers = opened(owner, "headers", headers, stored.task)
        return _replace(
            stored, args=opened(owner, "args", stored.args, stored.task), headers=headers
        )

    async def history(
        self,
        name: str,
        *,
        scope: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[LedgerEntry]:
        rows = await self._schedules.history(name, scope=scope, limit=limit, before=before)
        return list(map(self._entry, rows))

    async def failed_plans(
        self, name: str, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[LedgerEntry]:
        return list(map(self._entry, await self._schedules.failed_plans(name, limit, after)))

    def _entry(self, entry: LedgerEntry) -> LedgerEntry:
        reason = shown_or_opened(self._owner(entry.schedule), "reason", entry.reason) or ""
        if entry.job_id is None:
            return _replace(entry, reason=reason)
        owner, result = self._records.owner(entry.job_id), entry.result_json
        if result is not None:
            result = opened(owner, "result", result)
        error = _error(owner, entry)
        return _replace(entry, reason=reason, result_json=result, error=error)


def _error(owner: Owner, entry: LedgerEntry) -> str | None:
    """The newest error of its job: the kind, and the message. It is that of the last attempt,
    unless the job was requeued since."""
    if entry.error is None:
        return None
    kind, colon, message = entry.error.partition(": ")
    return f"{kind}{colon}{shown_or_opened(owner, f'error {entry.attempts}', message) or ''}"
