"""Polls of a worker. While nobody commits, the state that the database is in answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.job.ids import WorkerId
from holdfast.store.contract.records import LATELY, MOST_COUNTED, News
from holdfast.store.sqlite.rows import SECOND, seconds_until, to_json
from holdfast.store.sqlite.scripts import script
from holdfast.store.sqlite.transaction import State, Transaction

_Asked = tuple[WorkerId, tuple[str, ...]]


class Polling:
    """Remembers the last answer and what it was about. Used only in the reader's thread."""

    def __init__(self) -> None:
        self._looked_at: State | None = None
        self._known: tuple[State | None, _Asked | None, tuple[Any, ...]] = (None, None, ())

    def look(self, state: State, asked: _Asked, now: int) -> News | None:
        """What is known without a transaction. A worker that lapsed since is still counted."""
        self._looked_at = state
        then, about, found = self._known
        if then != state or about != asked:
            return None
        news = _news(found, now)
        return None if news.due_in is not None and news.due_in <= -LATELY else news

    def read(self, tx: Transaction, asked: _Asked) -> News:
        worker, queues = asked
        since = tx.now - round(LATELY * SECOND)
        [found] = tx.rows(script("workers/poll"), (to_json(queues), worker, since, tx.now, MOST_COUNTED))
        # Looked at before the transaction: never newer than what it saw.
        self._known = (self._looked_at, asked, found)
        return _news(found, tx.now)


def asked_for(worker: WorkerId, queues: Sequence[str]) -> _Asked:
    return worker, tuple(queues)


def _news(found: tuple[Any, ...], now: int) -> News:
    ready, due, cancels, schedules, replicas = found
    due_in = None if due is None else seconds_until(due, now)
    return News(bool(ready), due_in, cancels, schedules, replicas)
