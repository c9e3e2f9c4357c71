"""Claiming: one script where there is one partition, two rounds where there are several.

`jobs/claim` knows jobs without limits. Where lines are open in one of the queues, or one has a
total or ages, `jobs/claim_limited` gives all jobs. It takes longer to begin, whatever it gives.

Each task of a queue has a line of its own, so a claim never reads jobs of tasks that its worker
does not know. With several partitions, the first round asks each partition which jobs it would
give. The answers are merged by priority and arrival, and the second round asks each partition for
as many jobs as it won. If another worker claims in between, other jobs of the partition are given,
still in order.

The bodies of many jobs are read by a plain command after the script: on its way through Lua a body
is copied four times. Nodes come with their bodies and with what their worker would ask for next
(`Claimed.node`), so that a hop from node to node is two round trips: a command of its own would
wait behind the script that ends other nodes, and the server would then wait for the worker. A job
that goes on where another attempt left comes with its steps and signals (`Claimed.recalled`), if
they are few and so are the jobs: so a signal takes as many round trips to its handler as an
enqueue.

A claim whose reply is lost is not repeated. The jobs belong to the worker, which compares what the
store says it runs with what it knows. `Restarts` makes it do the same after a restart of the
server, which may have forgotten ends that it had acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.job.signal import Recalled
from holdfast.store.contract.records import Want
from holdfast.store.valkey import rows
from holdfast.store.valkey.connection import Connections, ValkeyVerbs, gathered
from holdfast.store.valkey.node_facts import facts_in
from holdfast.store.valkey.server import Restarts
from holdfast.store.valkey.steps import to_recalled

_replace = msgspec.structs.replace

CLAIM_BATCH = 1_000
INLINE_BODIES = 8
"""A claim of up to so many jobs brings their bodies along, which saves a round trip."""

NO_CLAIM = 0
"""What `jobs/claim` answers where limits matter."""

Wants = list[tuple[str, int, int]]  # queue, limit, how many of the jobs begin at once
Known = dict[str, list[str]]  # the tasks that a worker knows, and its labels
Taken = tuple[bytes, bytes, bytes | None, bytes | None]  # id, record, body, progress
Read = tuple[bytes, Claimed]  # a job with the record it was read from


class ValkeyClaiming(ValkeyVerbs):
    """See `holdfast.store.contract.claiming.Claiming`."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._restarts = Restarts()
        self._limited: set[int] = set()  # partitions in which limits matter

    async def claim(
        self,
        worker: WorkerId,
        wants: Sequence[Want],
        tasks: Sequence[str],
        labels: Collection[str] = (),
        only: Collection[str] = (),
    ) -> list[Claimed]:
        wanted = _merged(wants)
        known: Known = {"tasks": list(dict.fromkeys(tasks)), "labels": sorted(labels)}
        known["only"] = sorted(only)
        if not wanted or not known["tasks"]:
            return []
        if only and self._connections.options.partitions > 1:
            return []  # a store of several partitions refuses jobs that need labels
        await self._restarts.require_none(self._connections)
        if self._connections.options.partitions == 1:
            return [job for _, job in await self._take(0, worker, wanted, known)]
        shares = await self._shares(wanted, known)
        given = await gathered(
            [self._take(partition, worker, mine, known) for partition, mine in shares.items()]
        )
        return _in_line(given, wanted)

    async def _take(
        self, partition: int, worker: WorkerId, wants: Wants, known: Known
    ) -> list[Read]:
        answer = await self._claimed(partition, worker, wants, known)
        told, recalled = answer.pop() if len(answer) % 4 == 2 else ((), ())
        nodes = facts_in(told)
        taken = list(zip(answer[1::4], answer[2::4], answer[3::4], answer[4::4], strict=True))
        if len(taken) > INLINE_BODIES:
            taken = await self._with_bodies(partition, taken)
        found, unread = _read(taken)
        if unread:
            given = {"worker": worker, "unread": "1", "chosen": unread}
            await self._connections.call("jobs/set_aside", partition, given)
        if nodes:
            found = [
                (record, _replace(job, node=nodes[job.id]) if job.id in nodes else job)
                for record, job in found
            ]
        if recalled:
            remembered = _remembered(recalled)
            found = [
                (record, _replace(job, recalled=remembered.get(job.id))) for record, job in found
            ]
        return found

    async def _claimed(
        self, partition: int, worker: WorkerId, wants: Wants, known: Known
    ) -> list[Any]:
        """By the shorter script as long as no limit matters. It says when one does."""
        given = {"worker": worker, "wants": wants, "inline": INLINE_BODIES}
        call = self._connections.call
        answer: list[Any] | int = NO_CLAIM
        if partition not in self._limited and not known["only"]:
            plainly = {**given, "tasks": known["tasks"]}
            answer = await call("jobs/claim", partition, plainly, again=False)
        if not isinstance(answer, int):
            return answer
        found: list[Any] = await call(
            "jobs/claim_limited", partition, {**given, **known}, again=False
        )
        self._limited.add(partition)
        if found[0] is None:
            self._limited.discard(partition)
        return found

    async def _with_bodies(self, partition: int, taken: list[Taken]) -> list[Taken]:
        kind = self._connections.key(partition, "b:").encode()
        absent = [job_id for job_id, _, body, _ in taken if body is None]
        if not absent:
            return taken
        told = await self._connections.command("MGET", *[kind + job_id for job_id in absent])
        bodies = dict(zip(absent, told, strict=True))
        return [
            (job_id, record, bodies.get(job_id) if body is None else body, progress)
            for job_id, record, body, progress in taken
        ]

    async def _shares(self, wants: Wants, known: Known) -> dict[int, Wants]:
        """How many jobs of each queue every partition should give."""
        heads = await self._connections.everywhere("jobs/peek", wants=wants, **known)
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


def _merged(wants: Sequence[Want]) -> Wants:
    """Each queue once: two wants of one queue must not be given the same job."""
    limits: dict[str, tuple[int, int]] = {}
    for want in wants:
        if want.limit > 0:
            limit, free = limits.get(want.queue, (0, 0))
            limits[want.queue] = limit + want.limit, free + min(want.free, want.limit)
    return [(queue, min(limit, CLAIM_BATCH), free) for queue, (limit, free) in limits.items()]


def _read(taken: list[Taken]) -> tuple[list[Read], list[str]]:
    """The jobs that can be read, and the ids of those that cannot. A job whose body something else
    removed or overwrote must not fail the other jobs of its claim."""
    found: list[Read] = []
    unread: list[str] = []
    for one in taken:
        try:
            found.append((one[1], rows.claimed(*one)))
        except Exception:  # noqa: BLE001 - whatever it is, the job is put aside, where doctor looks
            unread.append(one[0].decode())
    return found, unread


def _remembered(told: Sequence[Any]) -> dict[str, Recalled]:
    """What `recall` in `lua/parts/claiming.lua` has noted."""
    each = zip(told[::3], told[1::3], told[2::3], strict=True)
    return {job_id.decode(): to_recalled(steps, signals) for job_id, steps, signals in each}


def _in_line(answers: list[list[Read]], wants: Wants) -> list[Claimed]:
    """The jobs by want, then priority, then arrival, whichever partition they came from."""
    place = {queue: n for n, (queue, *_) in enumerate(wants)}
    found = [
        (place[job.queue], job.priority, rows.to_record(record).seq, job)
        for taken in answers
        for record, job in taken
    ]
    return [job for *_, job in sorted(found, key=lambda one: one[:3])]
