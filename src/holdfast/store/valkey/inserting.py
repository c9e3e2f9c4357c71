"""Adding jobs.

A call is cut into batches, so that no script keeps the server busy for long. All batches are sent
at once, in order. A script writes its batch whole or not at all. A server without memory may take
some batches of a call and refuse others; then the error says which jobs were added.

With several partitions the caller takes one base of arrival numbers for all of them, so that the
jobs of one call keep their order wherever they go. A job with a unique key must lie in the
partition of its key, because one script has to see both. Ids are minted beside their keys for that.

Most jobs are plain (`NewJob.is_plain`): nothing in the store has to be read before they are
written. `jobs/insert_ready` writes a batch of plain jobs line by line, from records that Python has
packed, and `jobs/insert_limited` jobs that are plain but for their limits. A batch with any other
job, or with an id that the store has already, goes to `jobs/insert`, which looks at each job.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import cast

import msgspec
from msgspec.structs import astuple

from holdfast.errors import BadOption, NotCapable, PartlyInserted, StoreError, StoreUnavailable
from holdfast.job.ids import JobId, partition_bits
from holdfast.job.policy import readable_part
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import JobState
from holdfast.job.ties import NO_TIES, Tie
from holdfast.store.valkey.connection import Connections, ValkeyVerbs, batches, gathered
from holdfast.store.valkey.layout import SEQ_LENGTH, Record, width
from holdfast.store.valkey.moments import finite, to_micros
from holdfast.store.valkey.requests import JobRow, LineRow
from holdfast.store.valkey.rows import body, nested, pack

INSERT_BATCH = 500  # jobs of one script
ROUND_BATCH = 8_000  # jobs that share a base of arrival numbers
HOME = 0
"""The partition of all buckets, and of all jobs that pass them: one script has to see both."""
SEVERAL = "while it has several partitions (?partitions=1, no cluster)"
KEYED_AND_LIMITED = f"give a unique key to a job or a flow that passes limits {SEVERAL}"
CALLED_FROM_ELSEWHERE = (
    "a valkey store of several partitions keeps all jobs that pass limits in one of them: a job or "
    "a flow that passes none can neither call nor add them. Let the task that calls, or a node "
    "that the flow is started with, pass a limit, take turns or require labels too, or use a store "
    "of one partition"
)
SET_BY_SCRIPT = ("seq", "ready_at", "created_at", "spread")
OF_LIMITED = Record.__struct_fields__[width(Record) :]
"""The values that a record has more if its job passes limits."""
if OF_LIMITED != ("plan", "buckets", "costs", "weight", "total", "spent", "last_spread"):
    raise TypeError("inserting._line packs the values of a job with limits in another order")

Placed = tuple[int, NewJob]  # a job with its place in the round
Answers = list[Inserted | None]  # None: refused


class ValkeyInserting(ValkeyVerbs):
    """See `holdfast.store.contract.inserting.Inserting`."""

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        if not jobs:
            return []
        require_in_reach(self._connections, jobs)
        if self._connections.options.partitions == 1 and len(jobs) <= INSERT_BATCH:
            return await self._insert_batch(0, "", list(enumerate(jobs)))
        answers: Answers = []
        refusals: list[StoreError] = []
        for some in batches(jobs, ROUND_BATCH):
            answers += await self._insert_round(some, refusals)
            if refusals:
                break
        return _all_taken(answers, refusals)

    async def _insert_round(self, jobs: Sequence[NewJob], refusals: list[StoreError]) -> Answers:
        base = await self._connections.arrivals(1)
        placed: dict[int, list[Placed]] = {}
        for index, job in enumerate(jobs):
            placed.setdefault(self._connections.partition_of(job.id), []).append((index, job))
        answers = await gathered(
            [self._insert_in(p, base, mine, refusals) for p, mine in placed.items()]
        )
        by_index: dict[int, Inserted | None] = {}
        for mine, some in zip(placed.values(), answers, strict=True):
            by_index.update(zip((index for index, _ in mine), some, strict=True))
        return [by_index[index] for index in range(len(jobs))]

    async def _insert_in(
        self, partition: int, base: str, jobs: list[Placed], refusals: list[StoreError]
    ) -> Answers:
        """Insert the jobs of one partition. If a batch is refused, the answers of the others are
        still waited for: the caller must not be told that no job was added."""

        async def answers_of(batch: list[Placed]) -> Answers:
            try:
                return [*await self._insert_batch(partition, base, batch)]
            except StoreUnavailable:
                raise
            except StoreError as error:
                refusals.append(error)
                return [None] * len(batch)

        work = [partial(answers_of, batch) for batch in batches(jobs, INSERT_BATCH)]
        return [answer for some in await self._connections.in_order(work) for answer in some]

    async def _insert_batch(self, partition: int, base: str, jobs: list[Placed]) -> list[Inserted]:
        verb, lines = _lines(jobs)
        if lines:
            given = {"arrival": base, "lines": lines}
            if await self._connections.call(verb, partition, given):
                return [Inserted(job.id, "created") for _, job in jobs]
        rows = [job_row(job, index) for index, job in jobs]
        flat = await self._connections.call(
            "jobs/insert", partition, {"arrival": base, "jobs": rows}
        )
        return [
            Inserted(JobId(job_id.decode()), how.decode())
            for job_id, how in zip(flat[::2], flat[1::2], strict=True)
        ]


def _all_taken(answers: Answers, refusals: list[StoreError]) -> list[Inserted]:
    if not refusals:
        return cast("list[Inserted]", answers)
    if not any(answers):
        raise refusals[0]
    raise PartlyInserted(answers, refusals[0]) from refusals[0]


def require_in_reach(connections: Connections, jobs: Sequence[NewJob]) -> None:
    """One script has to see a job and its unique key, and one a job and all its buckets."""
    if connections.options.partitions == 1:
        return
    for job in jobs:
        if job.unique is not None:
            _require_beside_key(connections, job, job.unique.key)
    for job in jobs:
        if job.buckets:
            _require_at_home(connections, job)


def _require_beside_key(connections: Connections, job: NewJob, key: str) -> None:
    if connections.partition_of(job.id) != partition_bits(key) % connections.options.partitions:
        raise BadOption(
            f"id of a job with the unique key {key!r}",
            "one that new_job_id(beside=key) mints: in a store of several partitions a job "
            "lies where its key does (leave the id out)",
            job.id,
        )


def _require_at_home(connections: Connections, job: NewJob) -> None:
    if job.unique is not None:
        raise NotCapable("valkey", KEYED_AND_LIMITED)
    if connections.partition_of(job.id) != HOME:
        raise BadOption(
            "id of a job that passes limits",
            "one that new_job_id(limited=True) mints, or of a flow, new_flow_id(limited=True): "
            "in a store of several partitions such a job lies where all buckets are",
            job.id,
        )


def _lines(jobs: list[Placed]) -> tuple[str, list[object]]:
    """The script that adds these jobs by a shorter way, and the jobs by line and priority, with all
    that the jobs of such a group share said once. No lines if there is no shorter way: a job is not
    plain, or an id comes twice. All values stand in one list, because Lua makes a list of many
    short ones slowly."""
    lines: dict[tuple[str, str, int, float | None, str | None, str | None, int], list[object]] = {}
    is_limited = jobs[0][1].buckets is not None
    for index, job in jobs:
        if not (job.is_plain_with_permits if is_limited else job.is_plain):
            return "", []
        timeout = readable_part(job.policy).timeout
        of_line = (job.buckets, job.costs, job.weight)
        shared = (job.queue, job.task, job.priority, timeout, *of_line)
        line = lines.get(shared)
        if line is None:
            line = lines[shared] = []
        line += (job.id, nested(body(job, index)), index)
    if len(jobs) > 1 and len({job.id for _, job in jobs}) < len(jobs):
        return "", []
    verb = "jobs/insert_limited" if is_limited else "jobs/insert_ready"
    flat: list[object] = []
    for shared, line in lines.items():
        flat += astuple(_line(*shared, len(line)))
        flat += line
    return verb, flat


def _line(
    queue: str,
    task: str,
    priority: int,
    timeout: float | None,
    buckets: str | None,
    costs: str | None,
    weight: int,
    values: int,
) -> LineRow:
    if buckets is None:
        pieces = fresh_record(queue, task, priority, timeout)
        return LineRow(queue, task, priority, *pieces, values, False, False, 1, False)
    pieces = fresh_record(queue, task, priority, timeout, int(Tie.PERMITS), more=len(OF_LIMITED))
    of_line = (buckets, costs or False, weight)
    behind = pack((False, *of_line, False, False))[1:]  # without the byte that begins the list
    return LineRow(queue, task, priority, *pieces, values, *of_line, nested(behind))


@lru_cache(maxsize=1024)
def fresh_record(
    queue: str,
    task: str,
    priority: int,
    timeout: float | None,
    ties: int = NO_TIES,
    state: JobState = JobState.READY,
    more: int = 0,
) -> tuple[msgspec.Raw, msgspec.Raw, msgspec.Raw, msgspec.Raw]:
    """The packed record of a new plain job in four pieces. The script puts the arrival number
    behind the first piece, the time behind the next two, and the spread behind the last. (A blocked
    job is not ready yet: behind the second piece it gets `false`.) `more`: how many values
    follow."""
    known = {"state": state.value, "queue": queue, "task": task, "priority": priority, "ties": ties}
    zeros = dict.fromkeys(("attempts", "crashes", "fence"), 0)
    values = {**known, **zeros, "timeout": False if timeout is None else timeout}
    names = Record.__struct_fields__[: width(Record)]
    pieces = [b"\xdc" + (len(names) + more).to_bytes(2, "big")]  # begins a MessagePack list
    for name in names:
        if name in SET_BY_SCRIPT:
            pieces.append(b"")
        else:
            pieces[-1] += pack(values.get(name, False))
    pieces[0] += bytes([0xA0 + SEQ_LENGTH])  # begins a MessagePack text
    before_seq, before_ready_at, before_created_at, before_spread, behind = map(nested, pieces)
    assert behind == nested(b""), "the spread is not the last value of a record"
    return before_seq, before_ready_at, before_created_at, before_spread


def job_row(job: NewJob, index: int) -> JobRow:
    unique = job.unique
    return JobRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        body=nested(body(job, index)),
        priority=job.priority,
        run_at=None if job.run_at is None else to_micros(job.run_at),
        delay=finite(job.delay),
        deadline_at=None if job.deadline_at is None else to_micros(job.deadline_at),
        deadline_in=finite(job.deadline_in),
        timeout=readable_part(job.policy).timeout,
        key=None if unique is None else unique.key,
        key_states=None if unique is None else f" {' '.join(sorted(unique.states))} ",
        period=None if unique is None else unique.period,
        max_wait=None if unique is None else unique.max_wait,
        on_conflict=None if unique is None else unique.on_conflict,
        ties=job.ties,
        blocked=job.blocked,
        index=index,
        buckets=job.buckets,
        costs=job.costs,
        weight=job.weight,
    )
