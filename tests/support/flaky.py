"""A real store behind a line that can be cut, or that loses answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.errors import StoreUnavailable
from holdfast.store.contract.store import Store


class Line:
    """The state of the line, shared by a store and its siblings.

    `cut` refuses every call, `refuse` those of the verbs it names. `lose` names
    verbs of which one call each is applied although its answer is lost. `hold`
    names verbs whose answers wait for `release`; `held` those that do. `late` says
    how many seconds calls of a verb need to reach the store, and `first` what happens
    before the next call of a verb gets there. `calls` are all that were made, and
    `under_way` those without an answer.
    """

    def __init__(self) -> None:
        self.cut = False
        self.refuse: set[str] = set()
        self.lose: set[str] = set()
        self.hold: set[str] = set()
        self.held: list[str] = []
        self.late: dict[str, float] = {}
        self.first: dict[str, Callable[[], Awaitable[object]]] = {}
        self._released = asyncio.Event()
        self.calls: list[str] = []
        self.under_way: Counter[str] = Counter()

    def release(self) -> None:
        self.hold.clear()
        self._released.set()

    async def carry(self, verb: str, call: Callable[[], Any]) -> Any:
        self.calls.append(verb)
        self.under_way[verb] += 1
        try:
            return await self._carry(verb, call)
        finally:
            self.under_way[verb] -= 1

    async def _carry(self, verb: str, call: Callable[[], Any]) -> Any:
        if self.cut or verb in self.refuse:
            raise StoreUnavailable("the line is cut")
        await asyncio.sleep(self.late.get(verb, 0.0))
        if happens := self.first.pop(verb, None):
            await happens()
        answer = await call()
        if verb in self.hold:
            self.held.append(verb)
            await self._released.wait()
        if verb in self.lose:
            self.lose.discard(verb)
            raise StoreUnavailable("the answer is lost")
        return answer


class _Noun:
    def __init__(self, noun: Any, line: Line) -> None:
        self._noun = noun
        self._line = line

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._noun, verb)
        if not callable(method):
            return _Noun(method, self._line)  # `jobs.audit`

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._line.carry(verb, lambda: method(*args, **kwargs))

        return call


class FlakyStore:
    """Looks like the store it wraps; its nouns of data go over the line."""

    def __init__(self, store: Store, line: Line) -> None:
        self._store = store
        self._line = line
        self.jobs: Any = _Noun(store.jobs, line)
        self.workers: Any = _Noun(store.workers, line)
        self.queues: Any = _Noun(store.queues, line)
        self.schedules: Any = _Noun(store.schedules, line)
        self.flows: Any = _Noun(store.flows, line)
        self.audit: Any = _Noun(store.audit, line)
        self.operations: Any = _Noun(store.operations, line)
        self.shelf: Any = _Noun(store.shelf, line)
        self.steps: Any = _Noun(store.steps, line)
        self.signals: Any = _Noun(store.signals, line)
        self.streams: Any = _Noun(store.streams, line)
        self.limits: Any = _Noun(store.limits, line)
        self.failures: Any = _Noun(store.failures, line)
        self.telemetry: Any = _Noun(store.telemetry, line)
        self.wakeups = store.wakeups
        self.health = store.health
        self.kind = store.kind
        self.capabilities = store.capabilities
        self.durability = store.durability
        self.open = store.open
        self.close = store.close
        self.now = store.now
        self.migrate = store.migrate
        self.migration_sql = store.migration_sql

    def sibling(self) -> Store:
        return FlakyStore(self._store.sibling(), self._line)
