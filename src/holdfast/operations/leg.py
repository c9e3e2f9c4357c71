"""One runner's time with one operation: page by page, each written down before and after.

The package says why a page is written down twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.background.backoff import pause
from holdfast.background.leader import Leadership
from holdfast.errors import StoreRefuses, StoreUnavailable
from holdfast.events import Events
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.text import describe
from holdfast.operations.auditing import OperationAudit
from holdfast.operations.pages import Hand, Item, Noted, Pages, from_plain, row_of, words_of
from holdfast.store.contract.operations import (
    ERRORS_SHOWN,
    Advance,
    Operation,
    OperationProgress,
    OperationState,
)
from holdfast.store.contract.store import Store

JOB_BATCH = 500
PACED_SECONDS = 0.5
"""A paced operation takes so many seconds' worth of jobs at once."""
NAP_SECONDS = 2.0
"""How long a paced operation sleeps at most before its role is looked after."""
UNTOUCHED = "job {} was left as it is"

OnOperation = Callable[[Operation], None]
"""Is called with the operation whenever it has moved."""


class Leg:
    """One runner's time with one operation."""

    def __init__(
        self,
        store: Store,
        events: Events,
        operation: Operation,
        pages: Pages,
        leadership: Leadership,
        stop: asyncio.Event,
        on_move: OnOperation,
    ) -> None:
        self.operation = operation
        self._store = store
        self._events = events
        self._pages = pages
        self._leadership = leadership
        self._stop = stop
        self._on_move = on_move
        self._row = row_of(operation.request)
        self._audit = OperationAudit(store, operation)

    async def run(self) -> Operation:
        await self._audit.goes_on()
        while await self._may_go_on():
            began, worked = time.monotonic(), 0
            if self.operation.hand is not None:
                await self.take_over()
            else:
                worked = await self._page()
            await self._audit.goes_on()
            await self._keep_pace(began, worked)
        if self.operation.state is not OperationState.RUNNING:
            await self._over()
        return self.operation

    async def _may_go_on(self) -> bool:
        running = self.operation.state is OperationState.RUNNING and not self._stop.is_set()
        return running and await self._leadership.ensure()

    async def _over(self) -> None:
        done, request = self.operation.progress, self.operation.request
        await self._audit.close(self.operation)
        if request.by is not None:
            self._events.info(
                "operator.acted",
                by=request.by,
                verb=self._row.word,
                target=words_of(request) or self.operation.id,
                value=request.value,
                changed=done.changed,
            )
        self._events.info(
            "operation.over",
            operation=self.operation.id,
            verb=request.verb,
            state=self.operation.state.value,
            changed=done.changed,
            failed=done.failed,
        )

    # Pages

    async def _page(self) -> int:
        """Change one page; answers how many jobs it had."""
        page = await self._pages.page(self.operation.progress.cursor, self._room())
        if not page.items:
            await self._settle((), page.left, page.next_cursor)
            return 0
        hand = Hand.of(page).to_text()
        progress = self.operation.progress
        written = await self._advance(OperationState.RUNNING, progress, hand=hand)
        if not written or not self._leadership.held:
            return 0  # a runner that was held up for so long may have been replaced
        changed, left = await self._change(page.items)
        done = [(item.job.id, item.was) for item in page.items if item.job.id in changed]
        await self._settle(done, (*page.left, *left), page.next_cursor)
        return len(page.items)

    def _room(self) -> int:
        """How many jobs the next page may have."""
        request, progress = self.operation.request, self.operation.progress
        room = JOB_BATCH
        if request.canary is not None and not progress.canary_over:
            room = min(room, request.canary - progress.changed - progress.failed)
        if request.pace is not None:
            room = min(room, round(request.pace * PACED_SECONDS))
        return max(1, room)

    async def _keep_pace(self, began: float, worked: int) -> None:
        pace = self.operation.request.pace
        if pace is None or self.operation.state is not OperationState.RUNNING:
            return
        due = began + worked / pace
        while (left := due - time.monotonic()) > 0 and await self._may_go_on():
            await pause(min(left, NAP_SECONDS), self._stop)

    async def take_over(self, *, change: bool = True) -> None:
        """Bring the page in hand to its end. A job that is still as it was written down has not
        been changed: it is changed now, unless `change` is False. The revision rises first, so
        that of two runners who know of the page only one takes it."""
        operation = self.operation
        assert operation.hand is not None
        if not await self._advance(operation.state, operation.progress, hand=operation.hand):
            return
        hand = Hand.from_text(operation.hand)
        found = {job.id: job for job in await self._store.jobs.get([one.id for one in hand.jobs])}
        same = [one for one in hand.jobs if _is_same(one, found.get(one.id))]
        items = [Item(found[one.id], self._value(one), one.was) for one in same if change]
        changed, left = await self._change(items)
        tried = {item.job.id for item in items}
        before = {
            one.id
            for one in hand.jobs
            if one.id not in tried and self._was_changed(one, found.get(one.id))
        }
        done = [(one.id, one.was) for one in hand.jobs if one.id in changed | before]
        untouched = [UNTOUCHED.format(one.id) for one in hand.jobs if one.id not in tried | before]
        await self._settle(done, (*hand.left, *left, *untouched), hand.next_cursor)
        self._events.info(
            "operation.taken_over",
            operation=self.operation.id,
            jobs=len(hand.jobs),
            changed=len(before),
        )

    def _was_changed(self, one: Noted, job: Job | None) -> bool:
        if job is not None and _is_same(one, job):
            return self._row.marked(job, self._value(one))
        return self._row.applied(job, self._value(one))

    def _value(self, one: Noted) -> Any:
        return from_plain(self._row, one.value)

    # Changing

    async def _change(self, items: Sequence[Item]) -> tuple[frozenset[JobId], tuple[str, ...]]:
        """Apply the verb; answers which jobs are changed, and why the others are not."""
        groups: dict[Any, list[Item]] = defaultdict(list)
        for item in items:
            groups[item.value].append(item)
        changed: set[JobId] = set()
        errors: dict[JobId, str] = {}
        for value, some in groups.items():
            changed |= await self._change_some([item.job.id for item in some], value, errors)
        left = [
            errors.get(item.job.id) or self._row.refusal(item.job)
            for item in items
            if item.job.id not in changed
        ]
        return frozenset(changed), tuple(left)

    async def _change_some(
        self, ids: Sequence[JobId], value: Any, errors: dict[JobId, str]
    ) -> set[JobId]:
        """A page that the store cannot change whole is halved, until the job is alone that it
        cannot change."""
        try:
            by = self.operation.request.by
            return {*await self._row.change(self._store.jobs, ids, value, by)}
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception as error:  # noqa: BLE001 - kept with the operation, and shown
            if len(ids) == 1:
                errors[ids[0]] = f"job {ids[0]}: {describe(error)}"
                return set()
            half = len(ids) // 2
            first = await self._change_some(ids[:half], value, errors)
            return first | await self._change_some(ids[half:], value, errors)

    # Writing down

    async def _settle(
        self, done: Sequence[tuple[JobId, Any]], left: Sequence[str], next_cursor: str | None
    ) -> None:
        """Write down what came of a page. A stop stays one, also one that comes meanwhile."""
        before, hand = self.operation.progress, self.operation.hand
        state, progress = self._next_state(
            OperationProgress(
                cursor=next_cursor,
                changed=before.changed + len(done),
                failed=before.failed + len(left),
                errors=(*before.errors, *left)[:ERRORS_SHOWN],
                canary_over=before.canary_over,
            )
        )
        kept = msgspec.json.encode(done).decode() if done and self.operation.request.keeps else None
        while not await self._advance(state, progress, kept=kept):
            if (self.operation.progress, self.operation.hand) != (before, hand):
                return  # another runner has brought this page to its end
            if self.operation.state is OperationState.STOPPED and next_cursor is not None:
                state = OperationState.STOPPED

    def _next_state(self, progress: OperationProgress) -> tuple[OperationState, OperationProgress]:
        if progress.cursor is None:
            return OperationState.DONE, progress
        canary = self.operation.request.canary
        if canary is None or progress.canary_over or progress.changed + progress.failed < canary:
            return self.operation.state, progress
        return OperationState.WAITING, msgspec.structs.replace(progress, canary_over=True)

    async def _advance(
        self,
        state: OperationState,
        progress: OperationProgress,
        *,
        hand: str | None = None,
        kept: str | None = None,
    ) -> bool:
        """Move the operation from where it was read. If it is elsewhere by now, it is read anew."""
        before = self.operation
        move = Advance(state=state, progress=progress, hand=hand, kept=kept)
        moved = await self._store.operations.advance(before.id, before.revision, move)
        if moved:
            self.operation = msgspec.structs.replace(
                before, state=state, revision=before.revision + 1, progress=progress, hand=hand
            )
        else:
            [self.operation] = await self._store.operations.find([before.id])
        self._on_move(self.operation)
        return moved


def _is_same(one: Noted, job: Job | None) -> bool:
    """Whether a job is still as it was written down."""
    return job is not None and (job.state, job.fence) == (one.state, one.fence)
