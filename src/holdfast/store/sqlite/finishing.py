"""Guarded moves: a Transition is applied if its job is still in `source` with its fence.

The rows are read first, and all of a kind are then written together. That is safe because the
write lock is held from the start, and it measured faster than one guarded statement for each job.

Plain successes, which are nearly all moves, go a shorter way, and so do those of nodes. All others
are applied by the steps of `moves`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.errors import IllegalMove
from holdfast.job.ids import JobId
from holdfast.job.outcome import Transition, require_legal_moves
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.sqlite.moves import Found, Move, apply
from holdfast.store.sqlite.places import Narrow, at, locate
from holdfast.store.sqlite.rows import LATEST, after, to_json, to_json_object, to_micros
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.settling import settle_successes
from holdfast.store.sqlite.signals import met
from holdfast.store.sqlite.steps import record
from holdfast.store.sqlite.transaction import MINUTE, Transaction
from holdfast.store.sqlite.writer import Verbs

SMALL_BATCH = 64
"""So many moves take less than a millisecond."""


class SqliteFinishing(Verbs):
    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        if not transitions:
            return []
        return await self._writer.write(
            lambda tx: finish(tx, transitions), small=len(transitions) <= SMALL_BATCH
        )

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        if not transitions:
            return []
        return await self._writer.write(
            lambda tx: reclaim(tx, transitions, by), small=len(transitions) <= SMALL_BATCH
        )


def finish(tx: Transaction, transitions: Sequence[Transition]) -> list[Verdict]:
    """Plain successes and those of nodes go a shorter way; all other moves, and all of a kind of
    which one does not stand, are applied step by step. Successes of nodes come last: a blocked node
    that is to end does so before it could be released."""
    plain: dict[JobId, Transition] = {}
    nodes: dict[JobId, Transition] = {}
    others: list[Transition] = []
    for transition in transitions:
        if transition.is_plain_success:
            plain[transition.id] = transition
        elif transition.is_plain_success_of_node:
            nodes[transition.id] = transition
        else:
            others.append(transition)
    _require_legal(others)
    if with_steps := [one for transition in others for one in transition.steps]:
        record(tx, with_steps)
        others = _without_met_waits(tx, others)
    if not _are_distinct(transitions):
        return _apply(tx, transitions, _find(tx, transitions))
    if plain and not _succeed(tx, plain.values()):
        others += plain.values()
    verdicts = _applied(tx, others)
    if nodes and not _succeed_nodes(tx, nodes.values()):
        verdicts |= _applied(tx, list(nodes.values()))
    return [
        verdicts.get(transition.id) or Verdict(transition.id, True) for transition in transitions
    ]


def _without_met_waits(tx: Transaction, moves: list[Transition]) -> list[Transition]:
    """A job whose signal has come is not suspended for it."""
    awaiting = [move.id for move in moves if move.awaits]
    there = met(tx, awaiting) if awaiting else ()
    return [move.without_wait() if move.id in there else move for move in moves]


def _applied(tx: Transaction, transitions: Sequence[Transition]) -> dict[JobId, Verdict]:
    if not transitions:
        return {}
    return {one.id: one for one in _apply(tx, transitions, _find(tx, transitions))}


def reclaim(
    tx: Transaction, transitions: Sequence[Transition], by: WorkerInfo | None
) -> list[Verdict]:
    """Refuses a waiting job, which has no worker to lose, and a job whose worker is trusted
    again."""
    _require_legal(transitions)
    running = [transition for transition in transitions if transition.source is JobState.RUNNING]
    found = _find(tx, running) if _stands(tx, by) else {}
    ids = to_json({transition.id for transition in transitions})
    for (job_id,) in tx.rows(steps("jobs/reclaim")["trusted"], (ids, tx.now)):
        found.pop((JobState.RUNNING, job_id), None)
    return _apply(tx, transitions, found)


def _require_legal(transitions: Sequence[Transition]) -> None:
    require_legal_moves(transitions)
    for transition in transitions:
        if transition.to is JobState.RUNNING:  # only a claim makes a job run
            raise IllegalMove(transition.source, transition.to)


def _stands(tx: Transaction, by: WorkerInfo | None) -> bool:
    """Whether the reclaiming worker's lease holds, and its service had no break since it judged."""
    if by is None or by.alive_since is None:
        return True
    values = (by.id, to_micros(by.alive_since), tx.now)
    return bool(tx.rows(steps("jobs/reclaim")["stands"], values))


def _are_distinct(transitions: Sequence[Transition]) -> bool:
    return len({transition.id for transition in transitions}) == len(transitions)


# The short way: attempts that returned ------------------------------------------------------


def _succeed(tx: Transaction, transitions: Collection[Transition]) -> bool:
    """Apply plain successes if every one of them stands; otherwise change nothing.

    Each lot that is kept equally long is copied from the leases to the outcomes by one
    statement, which checks fences and ties. Whether all of them stood is a count.
    """
    sql = steps("jobs/finish")
    tx.run(sql["try"])
    stood = _copy(tx, transitions) == len(transitions)
    if stood:
        _leave_leases(tx, to_json(transition.id for transition in transitions))
    else:
        tx.run(sql["undo"])
    tx.run(sql["tried"])
    return stood


def _succeed_nodes(tx: Transaction, transitions: Collection[Transition]) -> bool:
    """The same for nodes of flows, with all that follows from their ends. Their rows lie on many
    pages, and a savepoint would copy each of them: outcomes of jobs that still have a lease are
    taken back instead."""
    sql = steps("jobs/finish")
    alike: dict[int, dict[str, str | None]] = {}
    for transition in transitions:
        alike.setdefault(transition.fence, {})[transition.id] = transition.result
    lots = [(to_json_object(results), fence, int(Tie.NODE)) for fence, results in alike.items()]
    stood = sum(tx.changed(sql["succeed nodes"], (tx.now, *lot)) for lot in lots)
    ids = to_json(transition.id for transition in transitions)
    if stood < len(transitions):
        tx.run(sql["undo nodes"], (ids,))
        return False
    _leave_leases(tx, ids)
    settle_successes(tx, ids)
    return True


def _leave_leases(tx: Transaction, ids: str) -> None:
    """Successes are counted, and leave what only running jobs have."""
    sql = steps("jobs/finish")
    tx.run(sql["count"], (tx.now // MINUTE, ids))
    tx.run(at("parts/leave", JobState.RUNNING), (ids,))
    if tx.rows(sql["any deadline"]) == [(1,)]:
        tx.run(sql["drop deadlines"], (ids,))


def _copy(tx: Transaction, transitions: Collection[Transition]) -> int:
    """Write the outcomes of those transitions that stand; returns how many stand."""
    alike: dict[tuple[float | None, int], dict[str, str | None]] = {}
    for transition in transitions:
        key = (transition.keep_for, transition.fence)
        alike.setdefault(key, {})[transition.id] = transition.result
    copy = steps("jobs/finish")["succeed"]
    stood = 0
    for (keep_for, fence), results in alike.items():
        expires_at = None if keep_for is None else after(tx.now, keep_for)
        times = (tx.now, expires_at, LATEST, tx.now)
        stood += tx.changed(copy, (*times, to_json_object(results), fence))
    return stood


# The long way -------------------------------------------------------------------------------

_Places = dict[tuple[JobState, str], Found]
_NARROW = len(Narrow._fields)


def _find(tx: Transaction, transitions: Sequence[Transition]) -> _Places:
    """The jobs that are in the `source` of their transitions, by source and id."""
    named: dict[JobState, list[JobId]] = {}
    for transition in transitions:
        named.setdefault(transition.source, []).append(transition.id)
    sql = steps("jobs/finish")
    found: _Places = {}
    for source, ids in named.items():
        if source is JobState.RUNNING:
            rows = tx.rows(sql["find running"], (to_json(ids),))
        else:
            rows = tx.rows(sql["find waiting"], (source.value, to_json(ids)))
        for row in rows:
            found[source, row[0]] = Found(Narrow._make(row[:_NARROW]), *row[_NARROW:])
    return found


def _apply(tx: Transaction, transitions: Sequence[Transition], found: _Places) -> list[Verdict]:
    moves: list[Move] = []
    verdicts: list[Verdict] = []
    for transition in transitions:
        job = found.get((transition.source, transition.id))
        stands = job is not None and job.narrow.fence == transition.fence
        if job is not None and stands:
            # One end for each fence, also within a batch.
            del found[transition.source, transition.id]
            moves.append(Move.of(transition, job))
        verdicts.append(Verdict(transition.id, stands))
    apply(tx, moves)
    return verdicts if len(moves) == len(verdicts) else _explained(tx, verdicts)


def _explained(tx: Transaction, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with the true state of every refused job, read after the batch was applied."""
    truth = locate(tx, {verdict.id for verdict in verdicts if not verdict.accepted})
    return [
        verdict
        if verdict.accepted
        else Verdict(verdict.id, False, *truth.get(verdict.id, (None, None)))
        for verdict in verdicts
    ]
