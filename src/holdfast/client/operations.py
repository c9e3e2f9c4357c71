"""The verbs on operations: `client.operations.begin("requeue", state="failed")`.

An operation applies one verb to all jobs that match a filter, page by page. It is a row in the
store, so it outlives whoever began it: any worker goes on with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, Unpack

import msgspec

from holdfast.client.acting import LONGEST_NAME, LONGEST_REASON, Acts
from holdfast.client.searching import require_searchable
from holdfast.client.selection import FilterWords, bulk_filter, states_meant
from holdfast.errors import BadOption, Refused, UnknownOperation
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.checks import check_job_id
from holdfast.job.ids import JobId, new_worker_id
from holdfast.job.record import Job
from holdfast.job.sealed import shown_job
from holdfast.job.state import JobState
from holdfast.operations.auditing import OperationAudit, act_of
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.operations.leg import OnOperation
from holdfast.operations.pages import is_readable, plain
from holdfast.operations.rows import JobVerb
from holdfast.operations.runner import OperationRunner
from holdfast.operations.undoing import MOST_UNDOABLE, undo_id, undo_request
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.operations import (
    Operation,
    OperationId,
    OperationRequest,
    OperationState,
    new_operation_id,
)
from holdfast.store.contract.store import Store

SAMPLES = 5
MOST_QUEUES = 50
"""A preview counts in so many queues at most; the rest of the jobs is shown as one number."""
WATCH_SECONDS = 0.5
MOST_LISTED = 1_000


class Preview(msgspec.Struct, frozen=True):
    """What an operation would touch: how many jobs by state and by queue, and the newest of them.
    Jobs of queues that are not listed are under `…`. `can_undo`: whether it could be taken back."""

    matched: int
    by_state: dict[JobState, int]
    by_queue: dict[str, int]
    samples: tuple[Job, ...]
    can_undo: bool


class OperationVerbs:
    """Begin, follow, stop and undo operations."""

    def __init__(self, store: Store, acts: Acts | None = None) -> None:
        self._store = store
        self._acts = acts or Acts()
        self._runner = OperationRunner(store, self._acts.events, new_worker_id())

    async def preview(
        self, verb: str, *, everything: bool = False, **which: Unpack[FilterWords]
    ) -> Preview:
        """What `begin` with the same words would touch. Nothing is changed."""
        row = _row(verb)
        meant = states_meant(row, bulk_filter(everything, **which))
        await require_searchable(self._store.jobs, meant)
        by_state = await self._store.jobs.count(meant)
        samples = tuple(map(shown_job, (await self._store.jobs.page(meant, SAMPLES)).jobs))
        matched = sum(by_state.values())
        by_queue = await self._by_queue(meant, matched) if matched else {}
        return Preview(matched, by_state, by_queue, samples, _can_undo(row, matched))

    async def _by_queue(self, meant: JobFilter, matched: int) -> dict[str, int]:
        """From the books, if the filter names no more than they know. Otherwise the books say
        which queues have such jobs at all, and the largest of them are counted one by one."""
        books: Counter[str] = Counter()
        for tally in await self._store.telemetry.tallies(meant.queues):
            if tally.state in meant.states and (not meant.tasks or tally.task in meant.tasks):
                books[tally.queue] += tally.jobs
        if meant.is_tallied:
            return dict(sorted(books.items()))
        found: dict[str, int] = {}
        for name, _ in books.most_common(MOST_QUEUES):
            if sum(found.values()) >= matched:
                break
            narrowed = msgspec.structs.replace(meant, queues=(name,))
            if number := sum((await self._store.jobs.count(narrowed)).values()):
                found[name] = number
        if (rest := matched - sum(found.values())) > 0:
            found["…"] = rest
        return found

    async def begin(
        self,
        verb: str,
        value: object = None,
        *,
        everything: bool = False,
        canary: int | None = None,
        pace: float | None = None,
        reason: str | None = None,
        by: str | None = None,
        **which: Unpack[FilterWords],
    ) -> Operation:
        """Write down an operation and return; a worker runs it, or `follow` does. With `canary` it
        changes so many jobs and then waits for `go_on`. `pace` is in jobs a second."""
        row = _row(verb)
        checked, meant = row.checked(value), states_meant(row, bulk_filter(everything, **which))
        await require_searchable(self._store.jobs, meant)
        matched = sum((await self._store.jobs.count(meant)).values())
        if row.verb is Verb.RESCHEDULE and checked:
            checked = await self._moment(checked)
        request = OperationRequest(
            verb=row.verb.value,
            which=msgspec.json.encode(meant).decode(),
            value=None if checked is None else msgspec.json.encode(plain(checked)).decode(),
            by=None if by is None else checks.text("by", by, LONGEST_NAME),
            reason=None if reason is None else checks.text("reason", reason, LONGEST_REASON),
            matched=matched,
            canary=None if canary is None else checks.count("canary", canary),
            pace=None if pace is None else _pace(pace),
            keeps=_can_undo(row, matched),
        )
        return await self._begin(new_operation_id(), request)

    async def _moment(self, due: Any) -> Any:
        """A delay counts from the begin, not from the page that a job is on."""
        if not isinstance(due, int | float):
            return due
        return await self._store.now() + timedelta(seconds=due)

    async def _begin(self, operation_id: OperationId, request: OperationRequest) -> Operation:
        act = act_of(operation_id, request)
        if act is not None:
            await self._store.audit.begin(act)
        await self._store.operations.begin(operation_id, request)
        return await self.get(operation_id)

    async def all(
        self, *, state: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[Operation]:
        """Operations, newest first. `before` is the id of the last one of the page before."""
        checks.count("limit", limit, most=MOST_LISTED)
        states = () if state is None else (_state(state),)
        behind = None if before is None else (await self.get(before)).id
        return await self._store.operations.find((), states, limit, behind)

    async def get(self, operation_id: str) -> Operation:
        """One operation; raises `UnknownOperation` if the store has none of this id."""
        try:
            known = OperationId(check_job_id(operation_id))
        except BadOption:
            raise UnknownOperation(operation_id) from None
        found = await self._store.operations.find([known])
        if not found:
            raise UnknownOperation(operation_id)
        return found[0]

    async def follow(self, operation_id: str, on_move: OnOperation | None = None) -> Operation:
        """Work on an operation, or watch whoever does, until it no longer runs. `on_move` is
        called with the operation whenever it has moved."""
        operation = await self.get(operation_id)
        tell = on_move or (lambda _: None)
        while operation.state is OperationState.RUNNING:
            operation = await self._runner.work(operation.id, on_move=tell) or operation
            if operation.state is OperationState.RUNNING:
                await asyncio.sleep(WATCH_SECONDS)
                operation = await self.get(operation_id)
                tell(operation)
        return operation

    async def outcomes(self, operation_id: str) -> dict[str, int]:
        """How the first jobs that the operation changed stand now, by state: after a canary, how
        the canary ended. Jobs that are gone are under `gone`."""
        operation = await self.get(operation_id)
        kept = await self._store.operations.kept(operation.id, 0, 1)
        if not kept:
            return {}
        pairs = msgspec.json.decode(kept[0][1], type=list[tuple[JobId, Any]])
        states = [job.state.value for job in await self._store.jobs.get([one for one, _ in pairs])]
        counted = Counter({"gone": len(pairs) - len(states)}) + Counter(states)
        return dict(sorted(counted.items()))

    async def stop(self, operation_id: str, *, by: str | None = None) -> None:
        """Stop an operation before its next page. `go_on` lets it run again."""
        operation = await self.get(operation_id)
        acting = self._acts.act(self._store, by, Noun.OPERATIONS, Verb.STOP, operation.id)
        async with acting as act:
            if not await self._store.operations.stop([operation.id]):
                raise await self._refused(operation.id, "it does not run")
            act.changed = 1
        stopped = await self.get(operation_id)
        if is_readable(stopped.request):
            await OperationAudit(self._store, stopped).close(stopped)

    async def go_on(self, operation_id: str, *, by: str | None = None) -> None:
        """Let an operation run that was stopped, or that waits after its canary."""
        operation = await self.get(operation_id)
        acting = self._acts.act(self._store, by, Noun.OPERATIONS, Verb.GO_ON, operation.id)
        async with acting as act:
            if not await self._store.operations.go_on([operation.id]):
                raise await self._refused(operation.id, "it needs no go-on")
            act.changed = 1

    async def _refused(self, operation_id: str, why: str) -> Refused:
        """Names the state that the operation has by now: it may have ended since it was read."""
        return Refused(f"operation {operation_id} is {(await self.get(operation_id)).state}: {why}")

    async def undo(
        self, operation_id: str, *, reason: str | None = None, by: str | None = None
    ) -> Operation:
        """Begin the operation that takes this one back, and return it. Jobs that have moved on
        since are left as they are. A second undo is the first one."""
        operation = await self._runner.settle(await self.get(operation_id))
        why = None if reason is None else checks.text("reason", reason, LONGEST_REASON)
        request = undo_request(operation, by, why)
        if found := await self._store.operations.find([undo_id(operation.id)]):
            return found[0]
        acting = self._acts.act(self._store, by, Noun.OPERATIONS, Verb.UNDO, operation.id)
        async with acting as act:
            undoing = await self._begin(undo_id(operation.id), request)
            act.changed = 1
        return undoing


def _row(verb: str) -> JobVerb:
    try:
        return JOB_VERBS[Verb(verb)]
    except (KeyError, ValueError):
        raise BadOption("verb", f"one of {', '.join(JOB_VERBS)}", verb) from None


def _can_undo(row: JobVerb, matched: int) -> bool:
    return row.undo is not None and matched <= MOST_UNDOABLE


def _pace(pace: object) -> float:
    number = checks.number(pace)
    if not 0 < number < float("inf"):
        raise BadOption("pace", "more than 0 jobs a second", pace)
    return number


def _state(state: str) -> OperationState:
    try:
        return OperationState(state)
    except ValueError:
        raise BadOption("state", f"one of {', '.join(OperationState)}", state) from None
