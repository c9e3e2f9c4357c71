"""Taking the first plain jobs of a queue and priority."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache

from holdfast.job.ids import WorkerId
from holdfast.job.policy import readable_part
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.records import Want
from holdfast.store.sqlite.picked import Picked, picked_jobs
from holdfast.store.sqlite.rows import after, to_datetime, to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction

BEFORE_ALL, AFTER_ALL = -(2**63), 2**63 - 1

PlainLine = tuple[str, int]
"""Its queue and priority."""


def take_first(
    tx: Transaction,
    worker: WorkerId,
    want: Want,
    priority: int,
    before: int,
    tasks: str,
    marks: MutableMapping[PlainLine, int],
) -> list[Claimed]:
    """The first jobs of one line, where so many were taken `before`."""
    sql = steps("jobs/claim")
    line, limit, free = (want.queue, priority), want.limit - before, max(0, want.free - before)
    rows = tx.rows(sql["pick"], (*line, marks.get(line, 0), tasks, limit))
    last = rows[-1][3] if len(rows) == limit else tx.rows(sql["last"], line)[0][0]
    marks[line] = (last or 0) + 1
    picked = picked_jobs(rows, to_datetime(tx.now), free)
    ahead_from = picked[free][0] if len(picked) > free else AFTER_ALL
    _move(tx, (worker, tx.now), line, tasks, [row[3] for row in rows], picked, ahead_from)
    return [job for _, job in picked]


def _move(
    tx: Transaction,
    holder: tuple[WorkerId, int],
    line: PlainLine,
    tasks: str,
    read: Sequence[int],
    picked: Sequence[Picked],
    ahead_from: int,
) -> None:
    """Move the picked jobs of one line to the leases, all alike in one statement: a statement for
    each job would also hand the interpreter to another thread and back for each. The jobs of these
    tasks stand next to each other, so a statement takes all from the first to the last one, but
    those that were `read` and are not meant: to name each costs a tenth of a worker's time. A job
    alone is named: that takes half as long as a range and its lists."""
    alike: dict[tuple[str, str], list[int]] = {}
    for seq, job in picked:
        alike.setdefault((job.policy, job.task), []).append(seq)
    timeouts: dict[float | None, list[int]] = {}
    for (policy, task), numbers in alike.items():
        timeouts.setdefault(readable_part(policy).timeout, []).extend(numbers)
        moved = (JobState.READY, JobState.RUNNING, What.CLAIMED, len(numbers))
        tx.count(line[0], task, *moved)
    for timeout, numbers in timeouts.items():
        if len(numbers) == 1:
            these, span = "one", (*line, *numbers)
        else:
            others = () if len(numbers) == len(read) else set(read).difference(numbers)
            these, span = "several", (*line, min(numbers), max(numbers), tasks, to_json(others))
        timeout_at = None if timeout is None else after(tx.now, timeout)
        tx.run(_of("lease", these), (*holder, timeout_at, ahead_from, *span))
        tx.run(_of("leave", these), span)


@cache
def _of(step: str, these: str) -> str:
    sql = steps("jobs/claim")
    return sql[step].replace("{{these}}", sql[these])
