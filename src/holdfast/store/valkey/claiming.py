"""Claiming: one script where there is one partition, two rounds where there are several.

`jobs/claim` knows jobs without limits. Where lines are open in one of the queues, or one has a
total or ages, `jobs/claim_limited` gives all jobs. It takes longer to begin, whatever it gives.

Each task of a queue has a line of its own, so a claim never reads jobs of tasks that its worker
does not know. With several partitions, the first round asks each partition which jobs it would
give. The answers are merged by priority and arrival, or by age where jobs age, and the second round
asks each partition for as many jobs as it won. If another worker claims in between, other jobs of
the partition are given, still in order. Jobs with limits all lie in one partition. Where some may
begin, they are asked for before the second round, as far as their priority or their half goes, and
after it for what is left.

The bodies of many jobs, and the rows of the nodes among them, are read by a plain command after the
script: on its way through Lua a text is copied four times. Few jobs (`INLINE_BODIES`) come with all
that their worker would ask for next, so that an idle worker begins after one round trip: nodes with
the results that they take (`Claimed.node`), and a job that goes on where another attempt left with
its steps and signals (`Claimed.recalled`).

A claim whose reply is lost is not repeated. The jobs belong to the worker, which compares what the
store says it runs with what it knows. `Restarts` makes it do the same after a restart of the
server, which may have forgotten ends that it had acknowledged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.job.signal import Recalled
from holdfast.store.contract.records import Want
from holdfast.store.valkey import rows
from holdfast.store.valkey.connection import Connections, ValkeyVerbs, gathered
from holdfast.store.valkey.inserting import HOME
from holdfast.store.valkey.layout import ID_LENGTH, SEQ_LENGTH
from holdfast.store.valkey.node_facts import NodesTold, facts_in
from holdfast.store.valkey.server import Restarts
from holdfast.store.valkey.steps import to_recalled

_replace = msgspec.structs.replace

CLAIM_BATCH = 1_000
INLINE_BODIES = 8
"""A claim of up to so many jobs brings their bodies along, and what else their worker needs, which
saves round trips."""

NO_CLAIM = 0
"""What `jobs/claim` answers where limits matter."""

Wants = list[tuple[str, int, int, int | None]]
"""Queue, limit, how many of the jobs begin at once, and of jobs with limits the priority of the
first job without, if there is one."""
Kinds = Literal["both", "lines", "plain"]
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
        await self._restarts.require_none(self._connections)
        if self._connections.options.partitions == 1 or only:  # all that need labels lie there
            return [job for _, job in await self._take(HOME, worker, wanted, known)]
        return await self._from_all(worker, wanted, known)

    async def _from_all(self, worker: WorkerId, wants: Wants, known: Known) -> list[Claimed]:
        heads = await self._heads(wants, known)
        found: list[Claimed] = []
        if heads.limits_matter:
            found += await self._of_lines(worker, heads.before_plain(wants), known)
        shares = heads.shares(_left(wants, found))
        given = await gathered(
            [
                self._take(partition, worker, mine, known, heads.kinds_in(partition))
                for partition, mine in shares.items()
            ]
        )
        found += _in_line(given, wants, heads.ages())
        if heads.limits_matter:
            found += await self._of_lines(worker, heads.unaged(_left(wants, found)), known)
        return found

    async def _of_lines(self, worker: WorkerId, wants: Wants, known: Known) -> list[Claimed]:
        if not wants:
            return []
        return [job for _, job in await self._take(HOME, worker, wants, known, "lines")]

    async def _take(
        self, partition: int, worker: WorkerId, wants: Wants, known: Known, kinds: Kinds = "both"
    ) -> list[Read]:
        answer = await self._claimed(partition, worker, wants, known, kinds)
        told, recalled = answer.pop() if len(answer) % 4 == 2 else ((), ())
        nodes = NodesTold(*told)
        taken = list(zip(answer[1::4], answer[2::4], answer[3::4], answer[4::4], strict=True))
        if len(taken) > INLINE_BODIES:
            taken, nodes = await self._with_bodies(partition, taken, nodes)
        found, unread = _read(taken)
        if unread:
            given = {"worker": worker, "unread": "1", "chosen": unread}
            await self._connections.call("jobs/set_aside", partition, given)
        if nodes.ids:
            facts = facts_in(nodes)
            found = [
                (record, _replace(job, node=facts[job.id]) if job.id in facts else job)
                for record, job in found
            ]
        if recalled:
            remembered = _remembered(recalled)
            found = [
                (record, _replace(job, recalled=remembered.get(job.id))) for record, job in found
            ]
        return found

    async def _claimed(
        self, partition: int, worker: WorkerId, wants: Wants, known: Known, kinds: Kinds
    ) -> list[Any]:
        """By the shorter script as long as no limit matters. It says when one does."""
        given = {"worker": worker, "wants": wants, "inline": INLINE_BODIES}
        call = self._connections.call
        answer: list[Any] | int = NO_CLAIM
        if kinds == "both" and partition not in self._limited and not known["only"]:
            plainly = {**given, "tasks": known["tasks"]}
            answer = await call("jobs/claim", partition, plainly, again=False)
        if not isinstance(answer, int):
            return answer
        found: list[Any] = await call(
            "jobs/claim_limited", partition, {**given, **known, "kinds": kinds}, again=False
        )
        self._limited.add(partition)
        if found[0] is None:
            self._limited.discard(partition)
        return found

    async def _with_bodies(
        self, partition: int, taken: list[Taken], nodes: NodesTold
    ) -> tuple[list[Taken], NodesTold]:
        """These jobs with their bodies, and the nodes among them with their rows."""
        body_of = self._connections.key(partition, "b:").encode()
        row_of = self._connections.key(partition, "n:").encode()
        keys = [body_of + job_id for job_id, *_ in taken] + [row_of + node for node in nodes.ids]
        values = await self._connections.command("MGET", *keys)
        bodies, packed = values[: len(taken)], values[len(taken) :]
        with_bodies = [
            (job_id, record, body, progress)
            for (job_id, record, _, progress), body in zip(taken, bodies, strict=True)
        ]
        return with_bodies, nodes._replace(rows=packed)

    async def _heads(self, wants: Wants, known: Known) -> Heads:
        told = await self._connections.everywhere("jobs/peek", wants=wants, **known)
        heads = Heads(bool(told[HOME][0]))
        for n, (queue, *_) in enumerate(wants):
            for partition, (_, answers) in enumerate(told):
                aged, *flat = answers[n]
                if aged:
                    heads.aged.add(queue)
                width = 3 if aged else 2  # the last of them is what goes first: age or priority
                each = zip(flat[::width], flat[1::width], flat[width - 1 :: width], strict=True)
                heads.lines.setdefault(queue, []).extend(
                    (float(order), float(priority), member, partition)
                    for member, priority, order in each
                )
        return heads


class Heads(msgspec.Struct):
    """The first jobs of each queue in all partitions: age or priority, priority, member and
    partition. Of queues whose jobs age these are all jobs, and of others those without limits.
    `limits_matter`: jobs with limits may begin."""

    limits_matter: bool
    aged: set[str] = msgspec.field(default_factory=set[str])
    lines: dict[str, list[tuple[float, float, bytes, int]]] = msgspec.field(default_factory=dict)

    def shares(self, wants: Wants) -> dict[int, Wants]:
        """How many jobs of each queue every partition should give."""
        found: dict[int, Wants] = {}
        for queue, limit, free, *_ in wants:
            won = [partition for *_, partition in sorted(self.lines[queue])[:limit]]
            begin = won[:free]
            for partition in dict.fromkeys(won):
                share = (queue, won.count(partition), begin.count(partition), None)
                found.setdefault(partition, []).append(share)
        return found

    def kinds_in(self, partition: int) -> Kinds:
        """Aged jobs are given of both kinds, whatever is asked."""
        return "plain" if partition == HOME and self.limits_matter else "both"

    def ages(self) -> dict[str, float]:
        """How old the jobs of queues are whose jobs age, by id."""
        id_at = slice(SEQ_LENGTH, SEQ_LENGTH + ID_LENGTH)
        return {
            member[id_at].decode(): age
            for queue in self.aged
            for age, _, member, _ in self.lines[queue]
        }

    def unaged(self, wants: Wants) -> Wants:
        return [want for want in wants if want[0] not in self.aged]

    def before_plain(self, wants: Wants) -> Wants:
        """With the priority of the first job without limits. Lines of better priorities go before
        it, and at its own they have half."""
        return [
            (queue, limit, free, int(min(self.lines[queue])[0]) if self.lines[queue] else None)
            for queue, limit, free, _ in self.unaged(wants)
        ]


def _left(wants: Wants, found: Sequence[Claimed]) -> Wants:
    """What is still wanted of each queue."""
    got = Counter(job.queue for job in found)
    return [
        (queue, limit - got[queue], max(0, free - got[queue]), None)
        for queue, limit, free, _ in wants
        if limit > got[queue]
    ]


def _merged(wants: Sequence[Want]) -> Wants:
    """Each queue once: two wants of one queue must not be given the same job."""
    limits: dict[str, tuple[int, int]] = {}
    for want in wants:
        if want.limit > 0:
            limit, free = limits.get(want.queue, (0, 0))
            limits[want.queue] = limit + want.limit, free + min(want.free, want.limit)
    return [(queue, min(limit, CLAIM_BATCH), free, None) for queue, (limit, free) in limits.items()]


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


def _in_line(answers: list[list[Read]], wants: Wants, ages: Mapping[str, float]) -> list[Claimed]:
    """The jobs by want, then by age or priority, then arrival, whichever partition they came from.
    A job that came between the two rounds has no age and goes by its priority."""
    place = {queue: n for n, (queue, *_) in enumerate(wants)}
    found = [
        (
            (place[job.queue], ages.get(job.id, job.priority), job.priority),
            rows.to_record(record).seq,
            job,
        )
        for taken in answers
        for record, job in taken
    ]
    return [job for *_, job in sorted(found, key=lambda one: one[:2])]
