"""Guarded moves: a Transition is applied if its job is still in `source` with its fence.

The rows are read first, and all of a kind are then written together. That is safe because the
write lock is held from the start, and it measured faster than one guarded statement for each job.

Plain successes, which are nearly all moves, go a shorter way, and so do those of nodes and those
that hold permits. All others are applied by the steps of `moves`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import NamedTuple

from holdfast.errors import IllegalMove
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.ties import BINDING, Tie
from holdfast.job.transition import Settles, Transition, require_legal_moves
from holdfast.job.what import What
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.sqlite.moves import Found, Move, apply
from holdfast.store.sqlite.places import Narrow, at, leave, locate
from holdfast.store.sqlite.receipts import Receipt, give_back, totals
from holdfast.store.sqlite.releasing import Taker
from holdfast.store.sqlite.rows import LATEST, after, to_json, to_json_object, to_micros
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.settling import settle_success, settle_successes
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
    """Successes that have little to settle go a shorter way; all other moves, and all of a kind of
    which one does not stand, are applied step by step. Successes of nodes come last: a blocked node
    that is to end does so before it could be released."""
    plain, holding, nodes, others = _by_way(transitions)
    _require_legal(others)
    if with_steps := [one for transition in others for one in transition.steps]:
        record(tx, with_steps)
        transitions = _without_met_waits(tx, transitions)
        others = _by_way(transitions).others
    if not _are_distinct(transitions):
        return _apply(tx, transitions, _find(tx, transitions))
    if plain and not _succeed(tx, plain, BINDING):
        others += plain
    if holding and not _succeed(tx, holding, BINDING & ~int(Tie.PERMITS)):
        others += holding
    verdicts = _applied(tx, others)
    if nodes and not _succeed_nodes(tx, nodes):
        verdicts |= _applied(tx, nodes)
    return [
        verdicts.get(transition.id) or Verdict(transition.id, True) for transition in transitions
    ]


class _ByWay(NamedTuple):
    plain: list[Transition]
    holding: list[Transition]
    nodes: list[Transition]
    others: list[Transition]


def _by_way(transitions: Sequence[Transition]) -> _ByWay:
    """Plain successes, those that hold permits, those of nodes, and all other moves."""
    found = _ByWay([], [], [], [])
    for transition in transitions:
        if transition.is_plain_success:
            found.plain.append(transition)
        elif transition.is_plain_success_with_permits:
            found.holding.append(transition)
        elif transition.is_plain_success_of_node:
            found.nodes.append(transition)
        else:
            found.others.append(transition)
    return found


def _without_met_waits(tx: Transaction, moves: Sequence[Transition]) -> list[Transition]:
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


def _succeed(tx: Transaction, transitions: Collection[Transition], bound: int) -> bool:
    """Apply plain successes if every one of them stands and has none of the ties in `bound`;
    otherwise change nothing.

    Each lot that is kept equally long is copied from the leases to the outcomes by one
    statement, which checks fences and ties. Whether all of them stood is a count.
    """
    sql = steps("jobs/finish")
    tx.run(sql["try"])
    stood = _copy(tx, transitions, bound) == len(transitions)
    if stood:
        ids = to_json(transition.id for transition in transitions)
        receipts = _receipts(tx, transitions) if bound != BINDING else []
        _leave_leases(tx, ids)
        if receipts:
            give_back(tx, receipts, {})
    else:
        tx.run(sql["undo"])
    tx.run(sql["tried"])
    return stood


def _receipts(tx: Transaction, transitions: Collection[Transition]) -> list[Receipt]:
    """What the leases of these successes have counted. Those that say what they have spent are
    read one by one, all others that are alike together."""
    sql = steps("jobs/finish")["receipts"]
    lots = [([one.id], one.spent) for one in transitions if one.spent]
    lots.append(([one.id for one in transitions if not one.spent], ()))
    return [
        Receipt(buckets, costs, leases, totals(kept, said), Settles.ESTIMATE)
        for ids, said in lots
        for buckets, costs, kept, leases in tx.rows(sql, (to_json(ids),))
    ]


def _succeed_nodes(tx: Transaction, transitions: Sequence[Transition]) -> bool:
    """The same for nodes of flows, with all that follows from their ends. Their rows lie on many
    pages, and a savepoint would copy each of them: outcomes of jobs that still have a lease are
    taken back instead."""
    if len(transitions) == 1:
        return succeed_node(tx, transitions[0])
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


def succeed_node(tx: Transaction, transition: Transition, taker: Taker | None = None) -> bool:
    """The same for one node, by the keys of its rows. Unless handlers are very short, the ends of
    nodes come alone, and lists of one take half as long again. The `taker` may have the node that
    it releases."""
    sql, job = steps("jobs/finish"), transition.id
    held = tx.row(sql["held node"], (job, transition.fence, int(Tie.NODE)))
    if held is None:
        return False
    queue, task, has_deadlines, edges, *flow = held
    tx.run(sql["succeed node"], (tx.now, transition.result, job))
    leave(tx, JobState.RUNNING, [job])
    tx.count(queue, task, JobState.RUNNING, JobState.SUCCEEDED, What.SUCCEEDED)
    if has_deadlines:
        tx.run(sql["drop deadlines"], (to_json([job]),))
    settle_success(tx, job, edges, flow, taker)
    return True


def _leave_leases(tx: Transaction, ids: str) -> None:
    """Successes are counted, and leave what only running jobs have."""
    tx.run(steps("jobs/finish")["count"], (tx.now // MINUTE, ids))
    tx.run(at("parts/leave", JobState.RUNNING), (ids,))
    _drop_any_deadlines(tx, ids)


def _drop_any_deadlines(tx: Transaction, ids: str) -> None:
    sql = steps("jobs/finish")
    if tx.rows(sql["any deadline"]) == [(1,)]:
        tx.run(sql["drop deadlines"], (ids,))


def _copy(tx: Transaction, transitions: Collection[Transition], bound: int) -> int:
    """Write the outcomes of those transitions that stand; returns how many stand."""
    alike: dict[tuple[float | None, int], dict[str, str | None]] = {}
    for transition in transitions:
        key = (transition.keep_for, transition.fence)
        alike.setdefault(key, {})[transition.id] = transition.result
    copy = _succeed_without(bound)
    stood = 0
    for (keep_for, fence), results in alike.items():
        expires_at = None if keep_for is None else after(tx.now, keep_for)
        times = (tx.now, expires_at, LATEST, tx.now)
        stood += tx.changed(copy, (*times, to_json_object(results), fence))
    return stood


@cache
def _succeed_without(bound: int) -> str:
    return steps("jobs/finish")["succeed"].replace("{{bound}}", str(bound))


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
