"""Guarded moves: a Transition is applied if its job is still in `source` with its fence.

The rows are read first and all of a kind are then written together. That is safe because
the write lock is held from the start, and it measured faster than one guarded statement
for each job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.outcome import Transition
from holdfast.job.policy import readable_part
from holdfast.job.record import ERRORS_KEPT
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.records import QueueSettings, Topic, Verdict, WorkerInfo
from holdfast.store.sqlite.rows import SECOND, after, to_json, to_micros
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.successes import succeed_all
from holdfast.store.sqlite.transaction import Row, Transaction

FORGIVEN_AFTER = 120 * SECOND

# Columns that every narrow row starts with:
# job_id, queue, priority, seq, task, attempts, crashes, fence
NARROW = 8
# and then, as finish finds them: deadline_at, worker_id, claimed_at, cancel_requested_at, policy
CANCEL, POLICY = 11, 12
_Retentions = dict[str, tuple[Any, ...]]


def finish(tx: Transaction, transitions: Sequence[Transition]) -> list[Verdict]:
    plain: dict[JobId, Transition] = {}
    others: list[Transition] = []
    for transition in transitions:
        if transition.is_plain_success:
            plain[transition.id] = transition
        else:
            others.append(transition)
    if not plain or not _are_distinct(transitions) or not succeed_all(tx, plain.values()):
        return _move(tx, transitions)
    verdicts = iter(_move(tx, others))
    return [
        Verdict(transition.id, True) if transition.id in plain else next(verdicts)
        for transition in transitions
    ]


def reclaim(
    tx: Transaction, transitions: Sequence[Transition], by: WorkerInfo | None
) -> list[Verdict]:
    """A waiting job has no worker to lose; one whose worker is trusted again has not lost it."""
    running = [transition for transition in transitions if transition.source is JobState.RUNNING]
    found = _find(tx, running) if _stands(tx, by) else {}
    ids = to_json({transition.id for transition in transitions})
    for (job_id,) in tx.rows(steps("jobs/finish")["trusted"], (ids, tx.now)):
        found.pop((JobState.RUNNING, job_id), None)
    return _Moves(tx).apply(transitions, found)


def _stands(tx: Transaction, by: WorkerInfo | None) -> bool:
    """Whether nothing has happened to the reclaiming worker since it judged."""
    if by is None or by.alive_since is None:
        return True
    values = (by.id, to_micros(by.alive_since), tx.now)
    return bool(tx.rows(steps("jobs/finish")["stands"], values))


def to_ready(tx: Transaction, source: JobState, rows: Sequence[Row]) -> None:
    """Move narrow rows from one place to the ends of their lines."""
    leave(tx, source, rows)
    line_up(tx, rows)


def leave(tx: Transaction, source: JobState, rows: Sequence[Row]) -> None:
    if rows:
        tx.run(steps("jobs/finish")[f"drop {source}"], (to_json(row[0] for row in rows),))


def line_up(tx: Transaction, rows: Sequence[Row]) -> None:
    """In this order, whatever places they come from."""
    if not rows:
        return
    first = take_numbers(tx, len(rows))
    tx.each(
        steps("jobs/finish")["ready"],
        [(*row[:3], seq, *row[4:NARROW], tx.now) for seq, row in enumerate(rows, first)],
    )
    for queue, jobs in Counter(row[1] for row in rows).items():
        tx.wake(Topic.READY, queue, jobs)


def take_numbers(tx: Transaction, count: int) -> int:
    """The first of `count` new arrival numbers."""
    [(last,)] = tx.rows(steps("parts/counter")["arrivals"], (count,))
    return int(last) - count + 1


def note_return(tx: Transaction) -> None:
    """To be called when jobs come to old places in a line: claimers have marks behind them."""
    tx.run(steps("parts/counter")["return"])


def waiting_rows(tx: Transaction, source: JobState, ids: Iterable[str]) -> list[Row]:
    """The narrow rows of those that are in `source`."""
    return tx.rows(steps("jobs/finish")[f"find {source}"], (to_json(dict.fromkeys(ids)),))


def locate(tx: Transaction, ids: Iterable[str]) -> dict[JobId, tuple[JobState, int]]:
    rows = tx.rows(script("parts/locate"), (to_json(dict.fromkeys(ids)),))
    return {JobId(job_id): (JobState(state), fence) for job_id, state, fence in rows}


def _are_distinct(transitions: Sequence[Transition]) -> bool:
    return len({transition.id for transition in transitions}) == len(transitions)


def _move(tx: Transaction, transitions: Sequence[Transition]) -> list[Verdict]:
    if not transitions:
        return []
    return _Moves(tx).apply(transitions, _find(tx, transitions))


def _find(tx: Transaction, transitions: Sequence[Transition]) -> dict[tuple[JobState, str], Row]:
    found: dict[tuple[JobState, str], Row] = {}
    for source in {transition.source for transition in transitions} & _SOURCES:
        ids = [transition.id for transition in transitions if transition.source is source]
        for row in waiting_rows(tx, source, ids):
            found[source, row[0]] = row
    return found


_SOURCES = frozenset({JobState.RUNNING, JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED})


class _Moves:
    """Sorts a batch of moves by where they go, then writes each kind at once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._sql = steps("jobs/finish")
        self._retentions: _Retentions = {
            row[0]: row[1:] for row in tx.rows(self._sql["retentions"])
        }
        self._drops: dict[JobState, list[JobId]] = {}
        self._deadlines: list[Row] = []
        self._errors: list[Row] = []
        self._writes: dict[str, list[Row]] = {}

    def apply(
        self, transitions: Sequence[Transition], found: dict[tuple[JobState, str], Row]
    ) -> list[Verdict]:
        verdicts: list[Verdict] = []
        refused: list[int] = []
        for transition in transitions:
            key = (transition.source, transition.id)
            row = found.get(key)
            if row is not None and row[7] == transition.fence:
                # One end for each fence, also within a batch.
                del found[key]
                self._move(transition, row)
                verdicts.append(Verdict(transition.id, True))
            else:
                refused.append(len(verdicts))
                verdicts.append(Verdict(transition.id, False))
        self._write()
        if refused:
            self._explain(verdicts, refused)
        return verdicts

    def _move(self, transition: Transition, row: Row) -> None:
        self._drops.setdefault(transition.source, []).append(transition.id)
        if transition.to in ENDED:
            self._end(transition, row)
        elif row[CANCEL] is not None:
            self._end(_stopped(transition, row[POLICY]), row)
        else:
            self._wait(transition, row)
        if transition.error is not None:
            error = transition.error
            told = (error.attempt, self._tx.now, error.kind, error.message, error.traceback)
            self._errors.append((transition.id, *told))
        if transition.cool is not None:
            throttle(self._tx, row[1], transition.cool)

    def _end(self, transition: Transition, row: Row) -> None:
        keep_for = transition.keep_for
        if self._retentions:
            keep_for = self._tuned(row[1], transition.to, keep_for)
        now = self._tx.now
        until = after(now, keep_for)
        ended = (transition.to.value, now, until, transition.reason, transition.result)
        self._writes.setdefault("end", []).append(
            (*_counted(transition, row), *row[NARROW:POLICY], *ended)
        )
        if row[NARROW] is not None:
            self._deadlines.append((transition.id,))

    def _wait(self, transition: Transition, row: Row) -> None:
        narrow = _counted(transition, row)
        now = self._tx.now
        due = None if transition.delay is None else after(now, transition.delay)
        if transition.to is JobState.READY:
            self._writes.setdefault("ready", []).append((*narrow, now))
            self._tx.wake(Topic.READY, row[1])
            return
        suspended = transition.to is JobState.SUSPENDED
        if due is None and not suspended:
            due = now
        step = "suspend" if suspended else "schedule"
        self._writes.setdefault(step, []).append((*narrow, transition.reason, due))
        if due is not None:
            self._tx.wake(Topic.DUE)

    def _tuned(self, queue: str, to: JobState, keep_for: float) -> float:
        succeeded, failed, other = self._retentions.get(queue, (None, None, None))
        match to:
            case JobState.SUCCEEDED:
                tuned = succeeded
            case JobState.FAILED:
                tuned = failed
            case _:
                tuned = other
        return keep_for if tuned is None else tuned

    def _write(self) -> None:
        for source, ids in self._drops.items():
            self._tx.run(self._sql[f"drop {source}"], (to_json(ids),))
        for step, rows in self._writes.items():
            self._tx.each(self._sql[step], rows)
        if "ready" in self._writes:
            note_return(self._tx)
        if self._deadlines:
            self._tx.each(self._sql["drop deadline"], self._deadlines)
        if self._errors:
            self._tx.each(self._sql["append error"], self._errors)
            trims = [(error[0], ERRORS_KEPT) for error in self._errors]
            self._tx.each(self._sql["trim errors"], trims)

    def _explain(self, verdicts: list[Verdict], refused: Sequence[int]) -> None:
        """What is true instead, read after the accepted moves of the same batch."""
        truth = locate(self._tx, {verdicts[index].id for index in refused})
        for index in refused:
            job_id = verdicts[index].id
            state, fence = truth.get(job_id, (None, None))
            verdicts[index] = Verdict(job_id, False, state, fence)


def _counted(transition: Transition, row: Row) -> Row:
    """The narrow row as it will be. An end keeps its bump too: a late write must see it."""
    job_id, queue, priority, seq, task, attempts, crashes, fence, *_ = row
    return (
        job_id,
        queue,
        priority,
        seq,
        task,
        attempts + transition.spend,
        crashes + transition.crash,
        fence + transition.bump,
    )


def _stopped(transition: Transition, policy: str) -> Transition:
    """A job whose cancel was asked for meanwhile does not go on; what was spent stays spent."""
    return msgspec.structs.replace(
        transition,
        to=JobState.CANCELLED,
        reason="cancelled on request",
        result=None,
        keep_for=readable_part(policy).retention.keep_for(JobState.CANCELLED),
    )


def throttle(tx: Transaction, queue: str, hint: float) -> None:
    """Let a queue cool down; only the first throttle of a window raises its count."""
    sql = steps("parts/throttle")
    fresh = QueueSettings()
    tx.run(sql["ensure"], (queue, fresh.throttle_base, fresh.throttle_cap))
    [(until, count, base, cap)] = tx.rows(sql["read"], (queue,))
    if until is not None and until > tx.now:
        until = max(until, after(tx.now, hint))
    else:
        lately = until is not None and tx.now <= until + FORGIVEN_AFTER
        count = count + 1 if lately else 1
        wait = min(base * 2.0 ** min(count - 1, 500), cap)
        until = after(tx.now, max(hint, wait))
    tx.run(sql["cool"], (queue, until, count))
