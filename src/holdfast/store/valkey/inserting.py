"""Adding jobs: cut into bites that do not hold up the server, sent in order in one round trip.

With several partitions the caller takes one base of arrival numbers for all of them, so that the
jobs of one call keep their order wherever they go. A job with a unique key must lie where its key
does, since one script has to see both; ids are minted beside their keys for that.

Jobs that are ready at once, without key or deadline, are most of all jobs and need to look at
nothing: `insert_ready` writes them whole, a line at a time. A bite that has any other job, or ids
that the store has already, is for `insert`, which looks at each.

A bite is written whole or not at all. A server that has no memory left may take some bites of a
call and refuse others; then the error says which jobs stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import cast

import msgspec

from holdfast.errors import BadOption, PartlyInserted, StoreError, StoreUnavailable
from holdfast.job.ids import JobId, partition_bits
from holdfast.job.policy import readable_part
from holdfast.job.record import Inserted, NewJob
from holdfast.store.valkey.connection import Connections, bites, gathered
from holdfast.store.valkey.layout import SEQ_LENGTH, JobRow, LineRow, Record, width
from holdfast.store.valkey.moments import finite, to_micros
from holdfast.store.valkey.rows import body, nested, pack

BITE = 500
ROUND = 8_000

SET_BY_SCRIPT = ("seq", "ready_at", "created_at", "spread")

Placed = tuple[int, NewJob]  # a job with its place in the round
Answers = list[Inserted | None]  # None: refused


async def insert(connections: Connections, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Each call's jobs arrive in its order; those of a round share one base."""
    require_beside_keys(connections, jobs)
    if connections.options.partitions == 1 and len(jobs) <= BITE:
        return await _insert_bite(connections, 0, "", list(enumerate(jobs)))
    answers: Answers = []
    refusals: list[StoreError] = []
    for some in bites(jobs, ROUND):
        answers += await _insert_round(connections, some, refusals)
        if refusals:
            break
    return _all_taken(answers, refusals)


def _all_taken(answers: Answers, refusals: list[StoreError]) -> list[Inserted]:
    if not refusals:
        return cast("list[Inserted]", answers)
    if not any(answers):
        raise refusals[0]
    raise PartlyInserted(answers, refusals[0]) from refusals[0]


def require_beside_keys(connections: Connections, jobs: Sequence[NewJob]) -> None:
    count = connections.options.partitions
    if count == 1:
        return
    for job in jobs:
        if job.unique is None:
            continue
        if connections.partition_of(job.id) != partition_bits(job.unique.key) % count:
            raise BadOption(
                f"id of a job with the unique key {job.unique.key!r}",
                "one that new_job_id(beside=key) mints: in a store of several partitions a job "
                "lies where its key does (leave the id out)",
                job.id,
            )


async def _insert_round(
    connections: Connections, jobs: Sequence[NewJob], refusals: list[StoreError]
) -> Answers:
    base = await connections.arrivals(1)
    placed: dict[int, list[Placed]] = {}
    for index, job in enumerate(jobs):
        placed.setdefault(connections.partition_of(job.id), []).append((index, job))
    answers = await gathered(
        [_insert_in(connections, p, base, mine, refusals) for p, mine in placed.items()]
    )
    told: dict[int, Inserted | None] = {}
    for mine, some in zip(placed.values(), answers, strict=True):
        told.update(zip((index for index, _ in mine), some, strict=True))
    return [told[index] for index in range(len(jobs))]


async def _insert_in(
    connections: Connections,
    partition: int,
    base: str,
    jobs: list[Placed],
    refusals: list[StoreError],
) -> Answers:
    """The answers of one partition, in the order of its jobs. A refused bite is noted, and those
    beside it are heard: whoever called must not be told that nothing stands."""

    async def answers_of(bite: list[Placed]) -> Answers:
        try:
            return [*await _insert_bite(connections, partition, base, bite)]
        except StoreUnavailable:
            raise
        except StoreError as error:
            refusals.append(error)
            return [None] * len(bite)

    work = [partial(answers_of, bite) for bite in bites(jobs, BITE)]
    return [answer for some in await connections.in_order(work) for answer in some]


async def _insert_bite(
    connections: Connections, partition: int, base: str, jobs: list[Placed]
) -> list[Inserted]:
    lines = _lines(jobs)
    if lines is not None:
        given = {"arrival": base, "lines": lines}
        if await connections.call("jobs/insert_ready", partition, given):
            return [Inserted(job.id, "created") for _, job in jobs]
    rows = [job_row(job, index) for index, job in jobs]
    flat = await connections.call("jobs/insert", partition, {"arrival": base, "jobs": rows})
    return [
        Inserted(JobId(job_id.decode()), how.decode())
        for job_id, how in zip(flat[::2], flat[1::2], strict=True)
    ]


def _lines(jobs: list[Placed]) -> list[LineRow] | None:
    """The jobs of each line that are alike, with all that they share said once; None if one of
    them has to be looked at, or is there twice."""
    lines: dict[tuple[str, str, int, float | None], list[object]] = {}
    for index, job in jobs:
        if not job.is_plain:
            return None
        shared = (job.queue, job.task, job.priority, readable_part(job.policy).timeout)
        line = lines.get(shared)
        if line is None:
            line = lines[shared] = []
        line += (job.id, nested(body(job.args, job.policy, job.tags, job.headers, index)), index)
    if len(jobs) > 1 and len({job.id for _, job in jobs}) < len(jobs):
        return None
    return [
        LineRow(queue, task, priority, *ready_record(queue, task, priority, timeout), line)
        for (queue, task, priority, timeout), line in lines.items()
    ]


@lru_cache(maxsize=1024)
def ready_record(
    queue: str, task: str, priority: int, timeout: float | None
) -> tuple[msgspec.Raw, msgspec.Raw, msgspec.Raw, msgspec.Raw]:
    """The packed record of a new plain job in four pieces. The script puts the arrival number
    between the first two, the time into the next two gaps, and the spread behind the last."""
    known = {"state": "ready", "queue": queue, "task": task, "priority": priority}
    zeros = dict.fromkeys(("attempts", "crashes", "fence", "ties"), 0)
    values = {**known, **zeros, "timeout": False if timeout is None else timeout}
    names = Record.__struct_fields__[: width(Record)]
    pieces = [b"\xdc" + len(names).to_bytes(2, "big")]  # begins a MessagePack list
    for name in names:
        if name in SET_BY_SCRIPT:
            pieces.append(b"")
        else:
            pieces[-1] += pack(values.get(name, False))
    pieces[0] += bytes([0xA0 + SEQ_LENGTH])  # begins a text of that length
    before_seq, before_ready_at, before_created_at, before_spread, behind = map(nested, pieces)
    assert behind == nested(b""), "the spread is not the last value of a record"
    return before_seq, before_ready_at, before_created_at, before_spread


def job_row(job: NewJob, index: int) -> JobRow:
    unique = job.unique
    return JobRow(
        job.id,
        job.task,
        job.queue,
        nested(body(job.args, job.policy, job.tags, job.headers, index)),
        job.priority,
        None if job.run_at is None else to_micros(job.run_at),
        finite(job.delay),
        None if job.deadline_at is None else to_micros(job.deadline_at),
        finite(job.deadline_in),
        readable_part(job.policy).timeout,
        None if unique is None else unique.key,
        None if unique is None else f" {' '.join(sorted(unique.states))} ",
        None if unique is None else unique.on_conflict,
        job.ties,
        job.blocked,
        index,
    )
