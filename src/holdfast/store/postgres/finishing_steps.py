"""The steps by which a batch of ends is applied on Postgres, each one statement and one round trip.

`finishing.py` says which of them a batch needs, and in which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter

import msgspec

from holdfast.flow.model import CASCADE_LIMIT
from holdfast.job.ids import JobId
from holdfast.job.policy import Retention
from holdfast.job.state import ENDED, SUCCEEDED, JobState
from holdfast.job.ties import Tie
from holdfast.job.transition import Transition
from holdfast.store.contract.failures import SAMPLE_SECONDS
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.postgres.body import list_as_text
from holdfast.store.postgres.buckets import throttle
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.held_keys import milliseconds
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.rows import STATES
from holdfast.store.postgres.settling import FLOW_TRY_SECONDS, Settling, settle
from holdfast.store.postgres.steps import record

_id, _fence = attrgetter("id"), attrgetter("fence")

LEASE_TRY_SECONDS = 0.1
"""How long a plain success waits for its lease. Workers and sweeps lock a lease only for one
statement, but a caller's own transaction may lock it for long."""


class Reclaim(msgspec.Struct, frozen=True):
    """Only jobs of workers that are gone or lapsed are moved, on the word of this worker."""

    by: WorkerInfo | None


class Asked(msgspec.Struct):
    """The moves of one batch, no two of one job: plain successes, those that give permits back,
    those of nodes, and all others."""

    plain: list[Transition]
    permits: list[Transition]
    nodes: list[Transition]
    others: list[Transition]
    reclaim: Reclaim | None
    pass_by: bool = False
    """Whether flows that others have locked are passed by."""


class Moved(msgspec.Struct):
    """What the steps of one batch have done so far: the verdicts of accepted moves, the queue of
    each job that the guarded moves took from its place, the buckets that counted it, the receipts
    of all their leases, and which limits are defined of those that throttled jobs name."""

    verdicts: dict[JobId, Verdict] = msgspec.field(default_factory=dict)
    queues: dict[JobId, str] = msgspec.field(default_factory=dict)
    buckets: dict[JobId, str] = msgspec.field(default_factory=dict)
    receipts: list[str] = msgspec.field(default_factory=list)
    defined: frozenset[str] = frozenset()


class FinishingSteps(JobVerbs):
    """Each step reads what is asked of the batch, and notes what it has done."""

    _waits_for_locks = False
    """Whether a move waits for a lease that another transaction has locked."""

    async def _record(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Steps that are written with the ends of their attempts, under the same guard."""
        await record(session, [one for move in asked.others for one in move.steps])
        if any(move.awaits for move in asked.others):
            await self._look_for_signals(session, asked)

    async def _look_for_signals(self, session: Session, asked: Asked) -> None:
        """A job whose signal has come is not suspended. The record of its wait has locked its
        lease, as `send` does. So this statement of its own sees every signal that was sent
        before."""
        awaiting = [move.id for move in asked.others if move.awaits]
        met = {JobId(row[0]) for row in await session.fetch("signals/met", awaiting)}
        asked.others = [move.without_wait() if move.id in met else move for move in asked.others]

    async def _lock_flows(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Lock the flows of all nodes that are to end. A node whose flow is passed by is not
        moved."""
        nodes = {move.id for move in (*asked.nodes, *asked.others) if ends_node(move)}
        wait = None if self._waits_for_locks else milliseconds(FLOW_TRY_SECONDS)
        found = await session.fetch("flows/lock_of", list(nodes), wait, asked.pass_by)
        if away := nodes - {JobId(row[0]) for row in found}:
            asked.others = [move for move in asked.others if move.id not in away]

    async def _succeed_nodes(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Successes of nodes, with all that follows from them. The statement locks their flows
        itself, so that a lone end is one round trip."""
        moves = asked.nodes
        refused = await session.timed(
            "flows/succeed",
            self._channel,
            ",".join([move.id for move in moves]),
            ",".join([str(move.fence) for move in moves]),
            list_as_text([move.result for move in moves]),
            None if self._waits_for_locks else milliseconds(FLOW_TRY_SECONDS),
            CASCADE_LIMIT,
        )
        _note_successes(moves, refused, moved)

    async def _settle(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Decide what waits for the nodes that have ended."""
        sources = {move.id: move.source for move in asked.others if move.ties & Tie.NODE}
        ended = {
            job: state
            for job in sources
            if (verdict := moved.verdicts.get(job)) and (state := verdict.state) in ENDED
        }
        idle = [job for job in ended if sources[job] is JobState.BLOCKED]
        if ended:
            await settle(session, self._connections, Settling(ended, are_new=True, idle=idle))

    async def _succeed(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Plain successes. The statement answers with those it refused: usually none."""
        refused = await session.timed("jobs/finish_succeeded", *self._succeeding(asked.plain))
        _note_successes(asked.plain, refused, moved)
        if refused:
            # Their queue may have got a total since they began, which counts them.
            names = {str(row[0]) for row in refused}
            await self._give_back(
                session, [move for move in asked.plain if move.id in names], [], moved
            )

    async def _succeed_with_permits(self, session: Session, asked: Asked, moved: Moved) -> None:
        """The same for jobs that hold permits. Gives back what the other moves owe too, because
        the buckets of a batch are locked at once and in order."""
        await self._give_back(session, asked.permits, moved.receipts, moved)

    async def _give_back(
        self, session: Session, moves: Sequence[Transition], receipts: list[str], moved: Moved
    ) -> None:
        values = (*self._succeeding(moves), self._channel, receipts, _all_spent(moves))
        refused = await session.timed("limits/succeed", *values)
        _note_successes(moves, refused, moved)

    def _succeeding(self, moves: Sequence[Transition]) -> tuple[object, ...]:
        return (
            [move.id for move in moves],
            [move.fence for move in moves],
            [move.result for move in moves],
            [move.keep_for for move in moves],
            None if self._waits_for_locks else milliseconds(LEASE_TRY_SECONDS),
        )

    async def _move(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Every other move, each under its guard."""
        moves = asked.others
        errors = [move.error for move in moves]
        by = asked.reclaim and asked.reclaim.by
        for row in await session.timed(
            "jobs/finish",
            self._channel,
            asked.reclaim is not None,
            [move.id for move in moves],
            [move.fence for move in moves],
            [move.source.value for move in moves],
            [move.to.value for move in moves],
            [move.spend for move in moves],
            [move.crash for move in moves],
            [move.bump for move in moves],
            [move.delay for move in moves],
            [move.keep_for for move in moves],
            [move.result for move in moves],
            [move.reason for move in moves],
            [error and error.kind for error in errors],
            [move.message for move in moves],
            [error and error.traceback for error in errors],
            [move.by for move in moves],
            [error and error.fingerprint for error in errors],
            Retention().other,
            by and by.id,
            by and by.alive_since,
            [move.run_at for move in moves],
            self._waits_for_locks,
            [move.what.value for move in moves],
            SAMPLE_SECONDS,
            not asked.permits,
            [_spent(move) for move in moves],
            [move.settles.value for move in moves],
            [move.gained for move in moves],
        ):
            job = JobId(row["job_id"])
            moved.verdicts[job] = Verdict(job, True, STATES[row["state"]], row["fence"])
            moved.queues[job] = row["queue"]
            if row["buckets"] is not None:
                moved.buckets[job] = row["buckets"]
                moved.receipts.append(row["receipt"])

    async def _look_for_limits(self, session: Session, asked: Asked, moved: Moved) -> None:
        named = {move.drains for move in asked.others if move.drains is not None}
        rows = await session.fetch("limits/defined", [*named])
        moved.defined = frozenset(row["name"] for row in rows)

    async def _drain(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Shut the buckets that throttled jobs name."""
        drains = {
            move.id: (move.drains, move.delay or 0.0)
            for move in asked.others
            if move.drains is not None
            and move.drains in moved.defined
            and move.id in moved.verdicts
        }
        if drains:
            await throttle(session, self._channel, moved.buckets, drains)

    async def _throttle(self, session: Session, asked: Asked, moved: Moved) -> None:
        """Let the queues of throttled jobs cool down, each for the longest time asked. A limit that
        is not defined cannot be shut, so the queue cools down instead."""
        hints: dict[str, float] = {}
        for move in asked.others:
            undefined = move.drains is not None and move.drains not in moved.defined
            wait = (move.delay or 0.0) if undefined else move.cool
            if wait is not None and (queue := moved.queues.get(move.id)) is not None:
                hints[queue] = max(wait, hints.get(queue, 0.0))
        untuned = QueueSettings()
        base, cap = untuned.throttle_base, untuned.throttle_cap
        if hints:
            await session.timed("queues/throttle", [*hints], [*hints.values()], base, cap)


def _spent(move: Transition) -> str | None:
    return msgspec.json.encode(dict(move.spent)).decode() if move.spent else None


def _all_spent(moves: Sequence[Transition]) -> str | None:
    spent = {move.id: dict(move.spent) for move in moves if move.spent}
    return msgspec.json.encode(spent).decode() if spent else None


def _note_successes(moves: Sequence[Transition], refused: Sequence[Record], moved: Moved) -> None:
    names = {str(row[0]) for row in refused}
    stood = [move for move in moves if move.id not in names] if names else moves
    ids, fences = map(_id, stood), map(_fence, stood)
    verdicts = map(Verdict, ids, repeat(True), repeat(SUCCEEDED), fences)
    moved.verdicts.update(zip(map(_id, stood), verdicts, strict=True))


def ends_node(move: Transition) -> bool:
    """Whether this move ends a node, or would if a cancel of the running node was asked for."""
    ends = move.to in ENDED or move.source is JobState.RUNNING
    return bool(move.ties & Tie.NODE) and ends
