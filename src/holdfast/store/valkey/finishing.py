"""Ends of attempts and other guarded moves, each partition's in one script.

Nearly all ends are returns, which `succeed` writes; `finish` knows every move. A batch that has
both is cut in two, unless it names a job twice: then the order in it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.outcome import Transition
from holdfast.store.contract.records import Verdict, WorkerInfo
from holdfast.store.valkey.connection import Call, Connections
from holdfast.store.valkey.rows import (
    STATES,
    bites,
    error_values,
    finite,
    nested,
    salted,
    to_micros,
    values,
)
from holdfast.store.valkey.workers import ALIVE_SINCE, FIELDS, HOME

BITE = 1_000
NOBODY = "nobody"
"""A worker that there is not: it may reclaim nothing."""

How = dict[str, str]
PLAINLY: How = {"reclaiming": "", "by": "", "alive_since": ""}


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
    return row is not None and str(values(row, FIELDS)[ALIVE_SINCE]) == how["alive_since"]


async def _finish(
    connections: Connections, transitions: Sequence[Transition], how: How
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for some in bites(transitions, BITE):
        verdicts += await _finish_some(connections, some, how)
    return verdicts


async def _finish_some(
    connections: Connections, transitions: Sequence[Transition], how: How
) -> list[Verdict]:
    """Not repeated when the line is lost: the worker recognises its own end in the verdict."""
    places = _places(connections, transitions, how)
    calls = [
        _call(verb, partition, [transitions[n] for n in mine], how)
        for (verb, partition), mine in places.items()
    ]
    answers = await connections.call_each(calls, again=False)
    verdicts = [Verdict(transition.id, True) for transition in transitions]
    for ((_, partition), mine), (refused, cooled) in zip(places.items(), answers, strict=True):
        for place, state, fence in zip(refused[::3], refused[1::3], refused[2::3], strict=True):
            verdicts[mine[place - 1]] = _refused(transitions[mine[place - 1]].id, state, fence)
        await _cool_elsewhere(connections, partition, cooled)
    return verdicts


def _places(
    connections: Connections, transitions: Sequence[Transition], how: How
) -> dict[tuple[str, int], list[int]]:
    """Which script of which partition each is for."""
    apart = not how["reclaiming"] and len({move.id for move in transitions}) == len(transitions)
    places: dict[tuple[str, int], list[int]] = {}
    for n, move in enumerate(transitions):
        verb = "jobs/succeed" if apart and move.is_plain_success else "jobs/finish"
        places.setdefault((verb, connections.partition_of(move.id)), []).append(n)
    return places


def _call(verb: str, partition: int, moves: Sequence[Transition], how: How) -> Call:
    if verb == "jobs/succeed":
        flat: list[Any] = []
        for n, move in enumerate(moves):
            result = False if move.result is None else salted(move.result, n)
            flat += (move.id, move.fence, finite(move.keep_for), result)
        return verb, partition, {"moves": flat}
    return verb, partition, {**how, "moves": [_row(n, move) for n, move in enumerate(moves)]}


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


def _row(n: int, move: Transition) -> tuple[Any, ...]:
    return (
        move.id,
        move.fence,
        move.to,
        move.source,
        move.spend,
        move.crash,
        move.bump,
        finite(move.delay),
        finite(move.keep_for),
        None if move.result is None else salted(move.result, n),
        move.reason,
        None if move.error is None else nested(error_values(move.error)),
        finite(move.cool),
    )
