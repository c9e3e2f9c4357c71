"""Giving ready jobs to a worker.

Each line (queue and priority) is read in order of arrival. Jobs of tasks that the worker
does not know are passed over; where the last scan found its first job is remembered for
each line, so thousands of them at its head are read once and not at every claim. What is
remembered is only a hint: it is forgotten every second, and at once when a claim comes
back short, because a job handed back returns to its old place before the mark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from holdfast.job import Claimed, JobId, WorkerId, decode_policy
from holdfast.store.contract import Want
from holdfast.store.sqlite.rows import (
    after,
    to_datetime,
    to_json,
    to_optional_datetime,
    to_texts,
)
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Row, Transaction

REMEMBERED_FOR = 1.0
BEFORE_ALL = -(2**63)


class Claimer:
    """Used only in the writer's thread, so its memory needs no lock."""

    def __init__(self) -> None:
        self._starts: dict[tuple[str, int], int] = {}
        self._tasks = ""
        self._forget_at = 0.0

    def forget(self) -> None:
        """To be called when jobs came back to places of their own in the lines."""
        self._starts.clear()

    def claim(
        self, tx: Transaction, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        sql = steps("claim")
        if not tx.rows(sql["trusted"], (worker, tx.now)):
            return []
        known = to_json(tasks)
        self._refresh(known)
        closed = {name for (name,) in tx.rows(sql["closed"], (tx.now,))}
        picked: list[Row] = []
        for want in wants:
            if want.queue not in closed and want.limit > 0:
                # Taken from the line before the next want looks: two may name one queue.
                rows = self._pick(tx, want, known)
                _take(tx, worker, rows)
                picked += rows
        claimed_at = to_datetime(tx.now)
        return [_claimed(row, claimed_at) for row in picked]

    def _refresh(self, tasks: str) -> None:
        """The marks hold for one set of tasks only."""
        moment = time.monotonic()
        if tasks != self._tasks or moment >= self._forget_at:
            self._starts.clear()
            self._tasks = tasks
            self._forget_at = moment + REMEMBERED_FOR

    def _pick(self, tx: Transaction, want: Want, tasks: str) -> list[Row]:
        marks = [line for line in self._starts if line[0] == want.queue]
        rows = self._walk(tx, want, tasks)
        if len(rows) < want.limit and marks:
            for line in marks:
                del self._starts[line]
            rows = self._walk(tx, want, tasks)
        return rows

    def _walk(self, tx: Transaction, want: Want, tasks: str) -> list[Row]:
        sql = steps("claim")
        rows: list[Row] = []
        priority: int | None = BEFORE_ALL
        while len(rows) < want.limit:
            [(priority,)] = tx.rows(sql["next priority"], (want.queue, priority))
            if priority is None:
                break
            line = (want.queue, priority)
            start = self._starts.get(line, 0)
            found = tx.rows(sql["pick"], (*line, start, tasks, want.limit - len(rows)))
            if found:
                self._starts[line] = found[0][3]
            rows += found
        return rows


def _take(tx: Transaction, worker: WorkerId, rows: Sequence[Row]) -> None:
    """From the line to the leases, all alike in one statement: a statement for each job would
    also hand the interpreter to another thread and back for each."""
    alike: dict[tuple[str, int, float | None], list[int]] = {}
    for row in rows:
        alike.setdefault((row[1], row[2], decode_policy(row[9]).timeout), []).append(row[3])
    sql = steps("claim")
    for (queue, priority, timeout), numbers in alike.items():
        line = (queue, priority, to_json(numbers))
        timeout_at = None if timeout is None else after(tx.now, timeout)
        tx.run(sql["lease"], (*line, worker, tx.now, timeout_at))
        tx.run(sql["leave"], line)


def _claimed(row: Row, claimed_at: datetime) -> Claimed:
    (
        job_id,
        queue,
        priority,
        _,
        task,
        attempts,
        crashes,
        fence,
        args,
        policy,
        created_at,
        tags,
        headers,
        deadline_at,
        checkpoint,
    ) = row
    return Claimed(
        JobId(job_id),
        task,
        queue,
        priority,
        args,
        policy,
        attempts,
        crashes,
        fence + 1,
        to_datetime(created_at),
        claimed_at,
        to_optional_datetime(deadline_at),
        to_texts(tags),
        headers,
        checkpoint,
    )
