"""Ends of attempts and other guarded moves, each partition's in one script.

Nearly all ends are returns, which `succeed` writes; `finish` knows every move. A batch that has
both is cut in two, unless it names a job twice: then the order in it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.outcome import Transition, require_legal_moves
from holdfast.job.state import JobState
from holdfast.store.contract.records import Verdict, WorkerInfo
from holdfast.store.valkey.connection import Connections, bites, gathered
from holdfast.store.valkey.layout import MoveRow
from holdfast.store.valkey.moments import finite, to_micros
from holdfast.store.valkey.rows import STATES, error_row, nested, to_worker_row
from holdfast.store.valkey.spread import with_spread
from holdfast.store.valkey.workers import HOME

BITE = 1_000
NOBODY = "nobody"
"""A worker that there is not: it may reclaim nothing."""

How = dict[str, str]
Judged = tuple[Transition, bool]  # a move, and whether it is a plain success
Placed = tuple[int, Transition]  # a move with its place in the batch
PLAINLY: How = {"arrival": "", "reclaiming": "", "by": "", "alive_since": ""}


async def finish(connections: Connections, transitions: Sequence[Transition]) -> list[Verdict]:
    return await _finish(connections, transitions, PLAINLY)


async def reclaim(
    connections: Connections, transitions: Sequence[Transition], by: WorkerInfo | None
) -> list[Verdict]:
    how = {**PLAINLY, "reclaiming": "1"}
    if by is not None and by.alive_since is not None:
        how |= {"by": by.id, "alive_since": str(to_micros(by.alive_since))}
        if connections.options.partitions > 1 and not await _stands(connections, how):
            how["by"] = NOBODY
    return await _finish(connections, transitions, how)


async def _stands(connections: Connections, how: How) -> bool:
    """Whether the service of the worker that reclaims has had no break since it judged. Only the
    first partition knows; where there are others it is asked before them."""
    row = await connections.command("HGET", connections.key(HOME, "workers"), how["by"])
    return row is not None and str(to_worker_row(row).alive_since) == how["alive_since"]


async def _finish(
    connections: Connections, transitions: Sequence[Transition], how: How
) -> list[Verdict]:
    judged = [(move, move.is_plain_success) for move in transitions]
    require_legal_moves(move for move, is_plain in judged if not is_plain)
    verdicts: list[Verdict] = []
    for some in bites(judged, BITE):
        verdicts += await _finish_some(connections, some, how)
    return verdicts


async def _finish_some(
    connections: Connections, moves: Sequence[Judged], how: How
) -> list[Verdict]:
    """Not repeated when the line is lost: the worker recognises its own end in the verdict."""
    if any(not is_plain and move.source is JobState.BLOCKED for move, is_plain in moves):
        how = {**how, "arrival": await connections.arrivals(1)}
    ways = _ways(connections, moves, how)
    answers = await gathered(
        [
            _apply(connections, verb, partition, [(n, moves[n][0]) for n in mine], how)
            for (verb, partition), mine in ways.items()
        ]
    )
    verdicts = [Verdict(move.id, True) for move, _ in moves]
    for ((_, partition), mine), (refused, cooled) in zip(ways.items(), answers, strict=True):
        for place, state, fence in zip(refused[::3], refused[1::3], refused[2::3], strict=True):
            n = mine[place - 1]
            verdicts[n] = _refused(moves[n][0].id, state, fence)
        await _cool_elsewhere(connections, partition, cooled)
    return verdicts


def _ways(
    connections: Connections, moves: Sequence[Judged], how: How
) -> dict[tuple[str, int], list[int]]:
    """Which script of which partition each move is for."""
    apart = not how["reclaiming"] and len({move.id for move, _ in moves}) == len(moves)
    ways: dict[tuple[str, int], list[int]] = {}
    for n, (move, is_plain) in enumerate(moves):
        verb = "jobs/succeed" if apart and is_plain else "jobs/finish"
        ways.setdefault((verb, connections.partition_of(move.id)), []).append(n)
    return ways


async def _apply(
    connections: Connections, verb: str, partition: int, moves: Sequence[Placed], how: How
) -> Any:
    """`jobs/succeed` answers 0 and changes nothing if a job was tied after its claim."""
    if verb == "jobs/succeed":
        flat: list[Any] = []
        for n, move in moves:
            result = False if move.result is None else with_spread(move.result, n)
            flat += (move.id, move.fence, finite(move.keep_for), result)
        answer = await connections.call(verb, partition, {"moves": flat}, again=False)
        if answer != 0:
            return answer
    given = {**how, "moves": [_row(n, move) for n, move in moves]}
    return await connections.call("jobs/finish", partition, given, again=False)


def _refused(job_id: JobId, state: bytes | None, fence: int | None) -> Verdict:
    return Verdict(job_id, False, None if state is None else STATES[state.decode()], fence)


async def _cool_elsewhere(connections: Connections, partition: int, cooled: list[bytes]) -> None:
    """Every partition keeps a copy of the queues' rows, so that a claim need not ask another."""
    others = [other for other in connections.partitions if other != partition]
    calls = [
        ("queues/cool", other, {"name": name, "row": row})
        for name, row in zip(cooled[::2], cooled[1::2], strict=True)
        for other in others
    ]
    if calls:
        await connections.call_each(calls)


def _row(n: int, move: Transition) -> MoveRow:
    return MoveRow(
        move.id,
        move.fence,
        move.to,
        move.source,
        move.spend,
        move.crash,
        move.bump,
        finite(move.delay),
        finite(move.keep_for),
        None if move.result is None else with_spread(move.result, n),
        move.reason,
        None if move.error is None else nested(error_row(move.error)),
        finite(move.cool),
        n,
    )
