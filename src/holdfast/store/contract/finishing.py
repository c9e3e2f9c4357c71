"""How attempts end, and waiting jobs with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import WorkerInfo


class Finishing(Protocol):
    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        """Apply guarded moves of running or waiting jobs (`Transition.source` says which),
        as if one after the other: of two moves of one job in a batch the first wins.

        A move that `TRANSITIONS` does not know raises `IllegalMove`, and nothing of the batch
        is applied. A move takes a shorter way only if `Transition.is_plain_success` says that it
        may, or the same of a node or of a job with permits.

        A running job whose cancel was asked for meanwhile does not go on: a move of it to a
        live state is applied as an end, cancelled "on request" and kept as its policy says.

        A running job that somebody's open transaction has locked, as `Joining.within` allows, may
        be refused where it is: running, with the fence that was given. So may a node, running or
        waiting, if the transaction has locked its flow. Its move may be asked again.

        The records in `steps` are written in the same step, if the fence of the move holds.

        To an ended state: an outcome row, kept for `keep_for` or as the queue's tuning
        overrides. To scheduled: due after `delay`. To ready: at its old position in line.
        To suspended: woken after `delay`, or only by `resume`. Every move but a success
        leaves a happening, with its error if it has one. Of a job's happenings the newest 32 errors
        are kept, and the first 8 and the newest 24 others.

        `cool` makes the queue cool down: the first throttle of a window raises the queue's count
        and sets
        `cool_until = now + max(cool, min(throttle_base * 2 ** (count - 1), throttle_cap))`;
        siblings inside the window only ever extend it to their own hint; a throttle later
        than 120 s after the window's end starts counting from one again.
        """
        ...

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        """As `finish`, but only for jobs whose worker is still gone or lapsed: checked in
        the same step, so a worker that came back in time keeps its jobs.

        `by` is the worker that reclaims, as it was when it judged. All is refused if its own
        lease has lapsed or its service has had a break since: then it may have been the store
        that was away, and what was judged before that holds no more."""
        ...
