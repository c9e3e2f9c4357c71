"""Claiming: one script where there is one partition, two rounds where there are several.

Each task of a queue has a line of its own, so jobs of tasks that a worker does not know are never
read. With several partitions all of them are asked who would be served first; the answers are
merged by priority and arrival, and each partition is then asked for as many as it won. Who is
quicker in between only changes which jobs of a partition are given, never their order in it.

Where there are many, their bodies are read beside the script: on its way through Lua each is
copied four times.

A claim whose reply is lost is not repeated here: what it took belongs to the worker, who compares
what the store says it runs with what it knows. The same is asked of it after a restart of the
server, which may have forgotten ends that it had acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.store.contract.records import Want
from holdfast.store.valkey import rows
from holdfast.store.valkey.connection import Connections, gathered
from holdfast.store.valkey.server import Restarts

MOST_AT_ONCE = 1_000
INLINE = 8
"""A claim of so few jobs brings their bodies along, which saves a round trip."""

Wants = list[tuple[str, int, int]]  # queue, limit, how many of them begin at once
Taken = tuple[bytes, bytes, bytes | None, bytes | None]  # id, record, body, progress
Read = tuple[bytes, Claimed]  # the record that it was read from


async def claim(
    connections: Connections,
    restarts: Restarts,
    worker: WorkerId,
    wants: Sequence[Want],
    tasks: Sequence[str],
) -> list[Claimed]:
    wanted = _merged(wants)
    known = list(dict.fromkeys(tasks))
    if not wanted or not known:
        return []
    await restarts.require_none(connections)
    if connections.options.partitions == 1:
        return [job for _, job in await _take(connections, 0, worker, wanted, known)]
    shares = await _shares(connections, wanted, known)
    given = await gathered(
        [_take(connections, partition, worker, mine, known) for partition, mine in shares.items()]
    )
    return _in_line(given, wanted)


def _merged(wants: Sequence[Want]) -> Wants:
    """Each queue once: two wants of one queue must not be given the same job."""
    limits: dict[str, tuple[int, int]] = {}
    for want in wants:
        if want.limit > 0:
            limit, free = limits.get(want.queue, (0, 0))
            limits[want.queue] = limit + want.limit, free + min(want.free, want.limit)
    return [(queue, min(limit, MOST_AT_ONCE), free) for queue, (limit, free) in limits.items()]


async def _take(
    connections: Connections, partition: int, worker: WorkerId, wants: Wants, tasks: list[str]
) -> list[Read]:
    given = {"worker": worker, "wants": wants, "tasks": tasks, "inline": INLINE}
    answer: list[Any] = await connections.call("jobs/claim", partition, given, again=False)
    taken = list(zip(answer[1::4], answer[2::4], answer[3::4], answer[4::4], strict=True))
    if len(taken) > INLINE:
        taken = await _with_bodies(connections, partition, taken)
    found, unread = _read(taken)
    if unread:
        given = {"worker": worker, "unread": "1", "chosen": unread}
        await connections.call("jobs/set_aside", partition, given)
    return found


def _read(taken: list[Taken]) -> tuple[list[Read], list[str]]:
    """Those that can be read, and the ids of those that cannot: one whose body something else
    removed or overwrote must not fail the others of its claim."""
    found: list[Read] = []
    unread: list[str] = []
    for one in taken:
        try:
            found.append((one[1], rows.claimed(*one)))
        except Exception:  # noqa: BLE001 - whatever it is, the job is put aside, where doctor looks
            unread.append(one[0].decode())
    return found, unread


async def _with_bodies(connections: Connections, partition: int, taken: list[Taken]) -> list[Taken]:
    kind = connections.key(partition, "b:").encode()
    bodies = await connections.command("MGET", *[kind + job_id for job_id, *_ in taken])
    return [
        (job_id, record, body, progress)
        for (job_id, record, _, progress), body in zip(taken, bodies, strict=True)
    ]


async def _shares(connections: Connections, wants: Wants, tasks: list[str]) -> dict[int, Wants]:
    """How many of each queue every partition should give."""
    heads = await connections.everywhere("jobs/peek", wants=wants, tasks=tasks)
    shares: dict[int, Wants] = {}
    for n, (queue, limit, free) in enumerate(wants):
        line: list[tuple[float, bytes, int]] = []
        for partition, answer in enumerate(heads):
            members, priorities = answer[n][::2], answer[n][1::2]
            line += [
                (float(priority), member, partition)
                for member, priority in zip(members, priorities, strict=True)
            ]
        won = [partition for _, _, partition in sorted(line)[:limit]]
        begin = won[:free]
        for partition in dict.fromkeys(won):
            share = (queue, won.count(partition), begin.count(partition))
            shares.setdefault(partition, []).append(share)
    return shares


def _in_line(answers: list[list[Read]], wants: Wants) -> list[Claimed]:
    """By want, then priority, then arrival, whichever partition they came from."""
    place = {queue: n for n, (queue, *_) in enumerate(wants)}
    found = [
        (place[job.queue], job.priority, rows.to_record(record).seq, job)
        for taken in answers
        for record, job in taken
    ]
    return [job for *_, job in sorted(found, key=lambda one: one[:3])]
