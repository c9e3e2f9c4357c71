"""Ends of attempts and other guarded moves, each partition's in one script.

Nearly all ends are returns, which `succeed` writes; `finish` knows every move. A batch that has
both is cut in two, unless it names a job twice: then the order in it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.job import JobId
from holdfast.outcome import Transition
from holdfast.store.records import Verdict
from holdfast.store.valkey.connection import Call, Connections
from holdfast.store.valkey.rows import STATES, bites, error_values, finite, nested, salted

BITE = 1_000


async def finish(
    connections: Connections, transitions: Sequence[Transition], *, reclaiming: bool = False
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for some in bites(transitions, BITE):
        verdicts += await _finish(connections, some, "1" if reclaiming else "")
    return verdicts


async def _finish(
    connections: Connections, transitions: Sequence[Transition], reclaiming: str
) -> list[Verdict]:
    """Not repeated when the line is lost: the worker recognises its own end in the verdict."""
    places = _places(connections, transitions, reclaiming)
    calls = [
        _call(verb, partition, [transitions[n] for n in mine], reclaiming)
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
    connections: Connections, transitions: Sequence[Transition], reclaiming: str
) -> dict[tuple[str, int], list[int]]:
    """Which script of which partition each is for."""
    apart = not reclaiming and len({move.id for move in transitions}) == len(transitions)
    places: dict[tuple[str, int], list[int]] = {}
    for n, move in enumerate(transitions):
        verb = "succeed" if apart and move.is_plain_success else "finish"
        places.setdefault((verb, connections.partition_of(move.id)), []).append(n)
    return places


def _call(verb: str, partition: int, moves: Sequence[Transition], reclaiming: str) -> Call:
    if verb == "succeed":
        flat: list[Any] = []
        for n, move in enumerate(moves):
            result = False if move.result is None else salted(move.result, n)
            flat += (move.id, move.fence, finite(move.keep_for), result)
        return verb, partition, {"moves": flat}
    return (
        verb,
        partition,
        {"reclaiming": reclaiming, "moves": [_row(n, move) for n, move in enumerate(moves)]},
    )


def _refused(job_id: JobId, state: bytes | None, fence: int | None) -> Verdict:
    return Verdict(job_id, False, None if state is None else STATES[state.decode()], fence)


async def _cool_elsewhere(connections: Connections, partition: int, cooled: list[bytes]) -> None:
    """Every partition keeps a copy of the queues' rows, so that a claim need not ask another."""
    others = [other for other in connections.partitions if other != partition]
    calls = [
        ("cool_queue", other, {"name": name, "row": row})
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
