"""What a move of a job does, as a list of steps in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.flow.ids import undo_flow_id
from holdfast.flow.model import ErrandKind
from holdfast.job.passing import bucket_of
from holdfast.job.policy import readable_part
from holdfast.job.state import ENDED, UNDONE, UNTIMED, JobState
from holdfast.job.ties import Tie
from holdfast.job.transition import Transition
from holdfast.job.what import USUAL
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.buckets import defined_of
from holdfast.store.sqlite.cooling import cool
from holdfast.store.sqlite.failures import count_failed
from holdfast.store.sqlite.happenings import NewHappening, tell
from holdfast.store.sqlite.limited import enter_ready
from holdfast.store.sqlite.places import Narrow, leave_all, line_up, note_return, wait_untimed
from holdfast.store.sqlite.receipts import Receipt, give_back, totals
from holdfast.store.sqlite.rows import after, to_json, to_micros
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.settling import orphan, owe, settle
from holdfast.store.sqlite.transaction import Row, Transaction


class Found(NamedTuple):
    """A job as a move finds it. `ready_at`: since when it waited, if it runs. `policy` is read
    only where a cancel was asked for. `buckets` and `costs` are what a running job counts in, and
    `spent` is what it has reported."""

    narrow: Narrow
    deadline_at: int | None
    ready_at: int | None
    worker_id: str | None
    claimed_at: int | None
    cancel_requested_at: int | None
    policy: str | None
    buckets: str | None
    costs: str | None
    spent: str | None


class Move(NamedTuple):
    """A transition that stands, and the job it moves."""

    transition: Transition
    job: Found

    @property
    def ends(self) -> bool:
        return self.transition.to in ENDED

    @property
    def counted(self) -> Narrow:
        """The narrow row after the move. An ended job keeps the bump of its fence too, so that a
        late write of its worker is refused."""
        job_id, queue, priority, seq, task, attempts, crashes, fence, ties = self.job.narrow
        moved = self.transition
        return Narrow(
            job_id,
            queue,
            priority,
            seq,
            task,
            attempts + moved.spend,
            crashes + moved.crash,
            fence + moved.bump,
            ties | moved.gained,
        )

    def due(self, now: int) -> int | None:
        moved = self.transition
        if moved.run_at is not None:
            return to_micros(moved.run_at)
        if moved.delay is not None:
            return after(now, moved.delay)
        return now if moved.to is JobState.SCHEDULED else None

    def told(self, now: int) -> NewHappening:
        """The happening. It has the fence of the attempt that ended, not one that a bump made."""
        moved, job = self.transition, self.job
        error = moved.error
        return NewHappening(
            job_id=moved.id,
            what=moved.what,
            attempt=job.narrow.attempts + (moved.source is JobState.RUNNING),
            fence=job.narrow.fence,
            worker_id=job.worker_id,
            claimed_at=job.claimed_at,
            due_at=None if self.ends else self.due(now),
            by=moved.by,
            kind=error.kind if error else None,
            fingerprint=error.fingerprint if error else None,
            message=moved.message,
            traceback=error.traceback if error else None,
        )

    @property
    def receipt(self) -> Receipt | None:
        moved, job = self.transition, self.job
        if job.buckets is None:
            return None
        spent = totals(job.spent, moved.spent)
        claimed_at = job.claimed_at or 0
        return Receipt(job.buckets, job.costs, 1, spent, moved.settles, claimed_at)

    @classmethod
    def of(cls, transition: Transition, job: Found) -> Move:
        """A running job whose cancel was asked for does not go on: a move to a live state becomes
        a cancel. Attempts that the move spends stay spent."""
        if transition.to in ENDED or job.cancel_requested_at is None:
            return cls(transition, job)
        stopped = msgspec.structs.replace(
            transition,
            to=JobState.CANCELLED,
            reason="cancelled on request",
            result=None,
            keep_for=readable_part(job.policy or "{}").retention.keep_for(JobState.CANCELLED),
        )
        return cls(stopped, job)


def apply(tx: Transaction, moves: Sequence[Move]) -> None:
    """Take every step with the moves that concern it."""
    for concerns, step in STEPS:
        if concerned := [move for move in moves if concerns(move)]:
            step(tx, concerned)


def _is_end_of_node(move: Move) -> bool:
    return move.ends and bool(move.job.narrow.ties & Tie.NODE)


def _settle_flows(tx: Transaction, moves: Sequence[Move]) -> None:
    settle(tx, {move.transition.id: move.transition.to for move in moves})


def _is_end_of_parent(move: Move) -> bool:
    return move.ends and bool(move.job.narrow.ties & Tie.PARENT)


def _orphan_flows(tx: Transaction, moves: Sequence[Move]) -> None:
    orphan(tx, [move.transition.id for move in moves])


def _is_to_be_undone(move: Move) -> bool:
    return move.transition.to in UNDONE and bool(move.job.narrow.ties & Tie.UNDO)


def _owe_undo(tx: Transaction, moves: Sequence[Move]) -> None:
    for move in moves:
        job = move.transition.id
        owe(tx, undo_flow_id(job), ErrandKind.UNDO, job)


def _leave_places(tx: Transaction, moves: Sequence[Move]) -> None:
    leave_all(tx, [(move.transition.source, move.job.narrow) for move in moves])


def _count(tx: Transaction, moves: Sequence[Move]) -> None:
    for transition, job in moves:
        narrow = job.narrow
        tx.count(narrow.queue, narrow.task, transition.source, transition.to, transition.what)


def _write_outcomes(tx: Transaction, moves: Sequence[Move]) -> None:
    sql = steps("jobs/finish")
    tuned = {name: QueueSettings.from_json(text) for name, text in tx.rows(sql["retentions"])}
    rows: list[Row] = []
    for (transition, job), narrow in ((move, move.counted) for move in moves):
        keep_for = _keep_for(transition, narrow, tuned.get(narrow.queue))
        facts = (job.deadline_at, job.worker_id, job.claimed_at, job.cancel_requested_at)
        times = (tx.now, None if keep_for is None else after(tx.now, keep_for))
        error = transition.error
        said = (transition.reason, transition.result, error and error.fingerprint)
        rows.append((*narrow, *facts, transition.to.value, *times, *said))
    tx.each(sql["end"], rows)


def _keep_for(transition: Transition, row: Narrow, tuned: QueueSettings | None) -> float | None:
    """Seconds that an ended job is kept, None for ever: as its policy says, unless its queue is
    tuned. A node is kept as long as its flow."""
    if row.ties & Tie.NODE:
        return None
    kept = None if tuned is None else tuned.keep_for(transition.to)
    return transition.keep_for if kept is None else kept


def _line_up_released(tx: Transaction, moves: Sequence[Move]) -> None:
    line_up(tx, [move.counted for move in moves])


def _return_to_line(tx: Transaction, moves: Sequence[Move]) -> None:
    """To their old positions, which may be before the marks of claimers. They have been waiting
    since they took these positions: so the first of a line is always its oldest."""
    rows = [(*move.counted, move.job.ready_at or tx.now) for move in moves]
    enter_ready(tx, rows, at_old_places=True)
    for move in moves:
        tx.wake(Topic.READY, move.job.narrow.queue)
    note_return(tx)


def _schedule(tx: Transaction, moves: Sequence[Move]) -> None:
    tx.each(
        steps("parts/enter")[JobState.SCHEDULED],
        [(*move.counted, move.transition.reason, move.due(tx.now)) for move in moves],
    )
    tx.wake(Topic.DUE)


def _suspend(tx: Transaction, moves: Sequence[Move]) -> None:
    rows = [(*move.counted, move.transition.reason, move.due(tx.now)) for move in moves]
    tx.each(steps("parts/enter")[JobState.SUSPENDED], rows)
    if any(wake_at is not None for *_, wake_at in rows):
        tx.wake(Topic.DUE)


def _wait_untimed(tx: Transaction, moves: Sequence[Move]) -> None:
    for place in {move.transition.to for move in moves}:
        wait_untimed(tx, place, [move.counted for move in moves if move.transition.to is place])


def _drop_deadlines(tx: Transaction, moves: Sequence[Move]) -> None:
    ids = to_json(move.transition.id for move in moves)
    tx.run(steps("jobs/finish")["drop deadlines"], (ids,))


def _tell(tx: Transaction, moves: Sequence[Move]) -> None:
    tell(tx, [move.told(tx.now) for move in moves])


def _count_failures(tx: Transaction, moves: Sequence[Move]) -> None:
    count_failed(
        tx,
        [
            (move.transition.id, move.job.narrow.task, move.transition.error)
            for move in moves
            if move.transition.error is not None
        ],
    )


def _cool_queues(tx: Transaction, moves: Sequence[Move]) -> None:
    for move in moves:
        if move.transition.cool is not None:
            cool(tx, move.job.narrow.queue, move.transition.cool)


def _gives_back(move: Move) -> bool:
    return move.job.buckets is not None or move.transition.drains is not None


def _give_back(tx: Transaction, moves: Sequence[Move]) -> None:
    receipts = [one for move in moves if (one := move.receipt) is not None]
    give_back(tx, receipts, _drained(tx, moves))


def _drained(tx: Transaction, moves: Sequence[Move]) -> dict[str, float]:
    """The buckets that throttled jobs shut, and for how long. Where the limit is not defined, the
    queue cools down."""
    named = {one for move in moves if (one := move.transition.drains) is not None}
    defined = defined_of(tx, named) if named else frozenset()
    drains: dict[str, float] = {}
    for transition, job in moves:
        wait = transition.delay or 0.0
        if transition.drains is None:
            continue
        if transition.drains in defined:
            bucket = bucket_of(job.buckets, transition.drains)
            drains[bucket] = max(wait, drains.get(bucket, 0.0))
        else:
            cool(tx, job.narrow.queue, wait)
    return drains


def _is_released(move: Move) -> bool:
    return move.transition.to is JobState.READY and move.transition.source in UNTIMED


def _returns(move: Move) -> bool:
    return move.transition.to is JobState.READY and move.transition.source not in UNTIMED


_Guard = Callable[[Move], bool]
_Step = Callable[[Transaction, Sequence[Move]], None]

STEPS: tuple[tuple[_Guard, _Step], ...] = (
    (lambda move: True, _leave_places),
    (lambda move: True, _count),
    (lambda move: move.ends, _write_outcomes),
    (_is_released, _line_up_released),
    (_returns, _return_to_line),
    (lambda move: move.transition.to is JobState.SCHEDULED, _schedule),
    (lambda move: move.transition.to is JobState.SUSPENDED, _suspend),
    (lambda move: move.transition.to in UNTIMED, _wait_untimed),
    (lambda move: move.ends and move.job.deadline_at is not None, _drop_deadlines),
    (lambda move: move.transition.what not in USUAL, _tell),
    (lambda move: move.transition.error is not None, _count_failures),
    (lambda move: move.transition.cool is not None, _cool_queues),
    (_gives_back, _give_back),
    (_is_end_of_node, _settle_flows),
    (_is_end_of_parent, _orphan_flows),
    (_is_to_be_undone, _owe_undo),
)
"""The steps, in order, each with a guard that says which moves it concerns. A step that only
jobs with ties need has `move.job.narrow.ties` in its guard."""
