"""How a worker gets jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.store.contract.records import Want


class Claiming(Protocol):
    async def claim(
        self,
        worker: WorkerId,
        wants: Sequence[Want],
        tasks: Sequence[str],
        labels: Collection[str] = (),
        only: Collection[str] = (),
    ) -> list[Claimed]:
        """Give ready jobs of these queues and tasks to a worker: lowest priority number
        first, then arrival. In a queue with `aging`, the least of `ready_at + priority * aging`
        goes first.

        Jobs with limits stand in lines (`holdfast.job.passing`): the lines of a queue and priority
        have their turns by weight (`holdfast.limits.turns`), those of one key of fairness together,
        and the first jobs of a line begin as far as all its buckets have room. A line that needs
        labels is left alone unless the worker has all of them in `labels`. A worker with `only` is
        given nothing but jobs of lines that need at least these labels. Of a queue with
        `max_running` no more jobs are given than that, with limits and without; their leases count
        in the bucket `queue:NAME`, and they have the tie PERMITS.

        Nothing is given from a paused or cooling queue, nor of a paused task, nor to a worker
        whose own lease has lapsed or who is not registered. Jobs of other tasks are left alone and
        must not slow the scan. The fence grows, and its last six bits by one (`times_taken`).
        `timeout_at` is set from the policy's timeout. What is given beyond `Want.free` is marked
        as claimed ahead. Nodes of flows may come with what `Flows.inputs` says of them.
        """
        ...
