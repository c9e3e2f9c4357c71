"""Ends of attempts and other guarded moves, each partition's in one script.

`jobs/finish` knows every move. Nearly all moves are plain successes
(`Transition.is_plain_success`); `jobs/succeed` writes those, at about four fifths of the server's
time. `jobs/succeed_nodes` does the same for nodes that returned, `jobs/succeed_limited` for jobs
with limits. A batch that has several kinds is cut, unless it names a job twice: then the order in
the batch counts, and `jobs/finish` gets all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.job.ids import JobId
from holdfast.job.passing import bucket_name
from holdfast.job.state import UNTIMED
from holdfast.job.transition import Transition, require_legal_moves
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.valkey.connection import ValkeyVerbs, batches, gathered
from holdfast.store.valkey.moments import finite, to_micros
from holdfast.store.valkey.requests import MoveRow
from holdfast.store.valkey.rows import STATES, error_row, nested, to_worker_row
from holdfast.store.valkey.spread import with_spread
from holdfast.store.valkey.steps import new_step_row
from holdfast.store.valkey.workers import HOME

MOVE_BATCH = 1_000
SUCCEED, SUCCEED_NODES, FINISH = "jobs/succeed", "jobs/succeed_nodes", "jobs/finish"
SUCCEED_LIMITED = "jobs/succeed_limited"
NOBODY = "nobody"
"""The name of no worker: it may reclaim nothing."""

How = dict[str, str]  # what jobs/finish is given besides the moves
Judged = tuple[Transition, str]  # a move, and the shortest script that knows it
Placed = tuple[int, Transition]  # a move with its place in the batch
Shut = tuple[str, float]  # a bucket, and for how many seconds at least
PLAINLY: How = {"arrival": "", "reclaiming": "", "by": "", "alive_since": ""}


class ValkeyFinishing(ValkeyVerbs):
    """See `holdfast.store.contract.finishing.Finishing`."""

    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        return await self._finish(transitions, PLAINLY)

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        how = {**PLAINLY, "reclaiming": "1"}
        if by is not None and by.alive_since is not None:
            how |= {"by": by.id, "alive_since": str(to_micros(by.alive_since))}
            if self._connections.options.partitions > 1 and not await self._stands(how):
                how["by"] = NOBODY
        return await self._finish(transitions, how)

    async def _stands(self, how: How) -> bool:
        """Whether the worker that reclaims has served without a break since it judged. Only the
        first partition knows; where there are others, it is asked before them."""
        key = self._connections.key(HOME, "workers")
        row = await self._connections.command("HGET", key, how["by"])
        return row is not None and str(to_worker_row(row).alive_since) == how["alive_since"]

    async def _finish(self, transitions: Sequence[Transition], how: How) -> list[Verdict]:
        """Every move is checked before the first batch is sent: an illegal move stops them all."""
        judged = [(move, SUCCEED if move.is_plain_success else _way(move)) for move in transitions]
        require_legal_moves(move for move, way in judged if way == FINISH)
        verdicts: list[Verdict] = []
        for some in batches(judged, MOVE_BATCH):
            verdicts += await self._finish_batch(some, how)
        return verdicts

    async def _finish_batch(self, moves: Sequence[Judged], how: How) -> list[Verdict]:
        moves, shut_later = await self._without_limits_elsewhere(moves)
        if any(way == FINISH and move.source in UNTIMED for move, way in moves):
            how = {**how, "arrival": await self._connections.arrivals(1)}
        ways = self._ways(moves, how)
        answers = await gathered(
            [
                self._apply(verb, partition, [(n, moves[n][0]) for n in mine], how)
                for (verb, partition), mine in ways.items()
            ]
        )
        verdicts = [Verdict(move.id, True) for move, _ in moves]
        for ((_, partition), mine), (refused, cooled, mark) in zip(
            ways.items(), answers, strict=True
        ):
            if None in refused:  # no such job
                self._connections.marks.require(partition, mark)
            for place, state, fence in zip(refused[::3], refused[1::3], refused[2::3], strict=True):
                n = mine[place - 1]
                verdicts[n] = _refused(moves[n][0].id, state, fence)
            if cooled:
                await self._cool_elsewhere(partition, cooled)
        shut = {shut_later[one.id] for one in verdicts if one.accepted and one.id in shut_later}
        if shut:
            chosen = [word for pair in shut for word in pair]
            await self._connections.call("limits/throttle", HOME, {"chosen": chosen})
        return verdicts

    async def _without_limits_elsewhere(
        self, moves: Sequence[Judged]
    ) -> tuple[Sequence[Judged], dict[JobId, Shut]]:
        """All buckets lie in the first partition, so the end of a job that lies elsewhere cannot
        shut one: it is shut after that end. A limit that is not defined stays with its move, and
        the queue cools down."""
        places = self._connections
        if places.options.partitions == 1:
            return moves, {}
        away = {
            move.id: move.drains
            for move, _ in moves
            if move.drains is not None and places.partition_of(move.id) != HOME
        }
        if not away:
            return moves, {}
        names = sorted(set(away.values()))
        rows = await places.command("HMGET", places.key(HOME, "limits"), *names)
        defined = {name for name, row in zip(names, rows, strict=True) if row is not None}
        later = {
            move.id: (bucket_name(move.drains), finite(move.delay) or 0.0)
            for move, _ in moves
            if away.get(move.id) in defined
        }
        parted = [
            (replace(move, drains=None) if move.id in later else move, way) for move, way in moves
        ]
        return parted, later

    def _ways(self, moves: Sequence[Judged], how: How) -> dict[tuple[str, int], list[int]]:
        """Which script of which partition gets which moves."""
        may_part = not how["reclaiming"] and len({move.id for move, _ in moves}) == len(moves)
        ways: dict[tuple[str, int], list[int]] = {}
        for n, (move, way) in enumerate(moves):
            verb = way if may_part else FINISH
            ways.setdefault((verb, self._connections.partition_of(move.id)), []).append(n)
        return ways

    async def _apply(self, verb: str, partition: int, moves: Sequence[Placed], how: How) -> Any:
        """Not repeated when the connection is lost: the worker recognises its own end in the
        verdict. The shorter scripts change nothing and answer 0 if a job was tied after its
        claim."""
        call = self._connections.call
        if verb != FINISH:
            answer = await call(verb, partition, _short(verb, moves), again=False)
            if answer != 0:
                return answer
        given = {**how, "moves": [_row(n, move) for n, move in moves]}
        return await call(FINISH, partition, given, again=False)

    async def _cool_elsewhere(self, partition: int, cooled: list[bytes]) -> None:
        """Every partition keeps a copy of the queues' rows, so that a claim reads no other."""
        others = [other for other in self._connections.partitions if other != partition]
        calls = [
            ("queues/cool", other, {"name": name, "row": row})
            for name, row in zip(cooled[::2], cooled[1::2], strict=True)
            for other in others
        ]
        if calls:
            await self._connections.call_each(calls)


def _way(move: Transition) -> str:
    """The script for a move that is no plain success."""
    if move.is_plain_success_with_permits:
        return SUCCEED_LIMITED
    return SUCCEED_NODES if move.is_plain_success_of_node else FINISH


def _short(verb: str, moves: Sequence[Placed]) -> dict[str, object]:
    if verb == SUCCEED_NODES:
        return {"arrival": "", "moves": _node_successes(moves)}
    if verb == SUCCEED_LIMITED:
        spent = {move.id: _spent(move) for _, move in moves if move.spent}
        return {"moves": _successes(moves), "spent": spent}
    return {"moves": _successes(moves)}


def _node_successes(moves: Sequence[Placed]) -> list[object]:
    """A node is kept as long as its flow, whatever its policy says."""
    flat: list[object] = []
    for n, move in moves:
        flat += (move.id, move.fence, False if move.result is None else with_spread(move.result, n))
    return flat


def _successes(moves: Sequence[Placed]) -> list[object]:
    flat: list[object] = []
    for n, move in moves:
        result = False if move.result is None else with_spread(move.result, n)
        keep_for = False if move.keep_for is None else finite(move.keep_for)
        flat += (move.id, move.fence, keep_for, result)
    return flat


def _row(n: int, move: Transition) -> MoveRow:
    return MoveRow(
        id=move.id,
        fence=move.fence,
        to=move.to,
        source=move.source,
        spend=move.spend,
        crash=move.crash,
        bump=move.bump,
        delay=finite(move.delay),
        run_at=None if move.run_at is None else to_micros(move.run_at),
        keep_for=finite(move.keep_for),
        result=None if move.result is None else with_spread(move.result, n),
        reason=move.reason,
        message=move.message,
        by=move.by,
        error=None if move.error is None else nested(error_row(move.error)),
        fingerprint=None if move.error is None else move.error.fingerprint,
        cool=finite(move.cool),
        what=move.what,
        index=n,
        steps=[new_step_row(one) for one in move.steps],
        drains=move.drains,
        settles=move.settles,
        spent=_spent(move),
        gained=move.gained,
    )


def _spent(move: Transition) -> list[object]:
    return [word for one in move.spent for word in one]


def _refused(job_id: JobId, state: bytes | None, fence: int | None) -> Verdict:
    return Verdict(job_id, False, None if state is None else STATES[state.decode()], fence)
