"""Adding jobs: cut into bites that do not hold up the server, sent in order in one round trip.

With several partitions the caller takes one base of arrival numbers for all of them, so that the
jobs of one call keep their order wherever they go. A job with a unique key must lie where its key
does, since one script has to see both; ids are minted beside their keys for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors import BadOption
from holdfast.job import Inserted, JobId, NewJob, decode_policy, partition_bits
from holdfast.store.valkey.connection import Connections, gathered
from holdfast.store.valkey.rows import bites, body, finite, nested, to_micros

BITE = 500
ROUND = 8_000

Row = tuple[Any, ...]


async def insert(connections: Connections, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Each call's jobs arrive in its order; those of a round share one base."""
    require_beside_keys(connections, jobs)
    answers: list[Inserted] = []
    for some in bites(jobs, ROUND):
        answers += await _insert_round(connections, some)
    return answers


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


async def _insert_round(connections: Connections, jobs: Sequence[NewJob]) -> list[Inserted]:
    base = await connections.arrivals(1)
    rows: dict[int, list[Row]] = {}
    for index, job in enumerate(jobs):
        rows.setdefault(connections.partition_of(job.id), []).append(job_row(job, index))
    told: dict[int, Inserted] = {}
    for some in await gathered(
        [_insert_in(connections, p, base, mine) for p, mine in rows.items()]
    ):
        told |= some
    return [told[index] for index in range(len(jobs))]


async def _insert_in(
    connections: Connections, partition: int, base: str, rows: list[Row]
) -> dict[int, Inserted]:
    """The answers of one partition, by their places in the round."""
    calls = [{"arrival": base, "jobs": bite} for bite in bites(rows, BITE)]
    answers = await connections.call_in_order("insert", partition, calls)
    flat = [text.decode() for answer in answers for text in answer]
    return {
        row[-1]: Inserted(JobId(job_id), how)
        for row, job_id, how in zip(rows, flat[::2], flat[1::2], strict=True)
    }


def job_row(job: NewJob, index: int) -> Row:
    unique = job.unique
    return (
        job.id,
        job.task,
        job.queue,
        nested(body(job.args, job.policy, job.tags, job.headers)),
        job.priority,
        None if job.run_at is None else to_micros(job.run_at),
        finite(job.delay),
        None if job.deadline_at is None else to_micros(job.deadline_at),
        finite(job.deadline_in),
        decode_policy(job.policy).timeout,
        None if unique is None else unique.key,
        None if unique is None else f" {' '.join(sorted(unique.states))} ",
        None if unique is None else unique.on_conflict,
        index,
    )
