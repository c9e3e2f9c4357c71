"""What operators do to jobs: one script a verb, called in every partition that it concerns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.job.happening import parts_edited
from holdfast.job.ids import JobId
from holdfast.store.valkey.audit import ValkeyAudit
from holdfast.store.valkey.connection import Call, ValkeyVerbs, batches
from holdfast.store.valkey.moments import finite, to_micros
from holdfast.store.valkey.replies import ids_of
from holdfast.store.valkey.rows import pack

CHOSEN_BATCH = 500


class ValkeyOperating(ValkeyVerbs):
    """See `holdfast.store.contract.operating.Operating`."""

    @property
    def audit(self) -> ValkeyAudit:
        return ValkeyAudit(self._connections)

    async def resume(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        return await self._arriving("jobs/resume", ids, by=by or "")

    async def request_cancel(
        self, ids: Sequence[JobId], by: str | None = None, why: str | None = None
    ) -> list[JobId]:
        return await self._each("jobs/request_cancel", ids, by=by or "", why=why or "")

    async def requeue(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        return await self._arriving("jobs/requeue", ids, by=by or "")

    async def reschedule(
        self, ids: Sequence[JobId], due: float | datetime, by: str | None = None
    ) -> list[JobId]:
        at: dict[str, object] = {"run_at": "", "delay": ""}
        if isinstance(due, datetime):
            at["run_at"] = to_micros(due)
        else:
            at["delay"] = finite(due)
        return await self._arriving("jobs/reschedule", ids, by=by or "", **at)

    async def edit(
        self,
        ids: Sequence[JobId],
        args: str | None = None,
        tags: Sequence[str] | None = None,
        by: str | None = None,
    ) -> list[JobId]:
        new_tags = "" if tags is None else pack(tuple(tags))
        told = {"message": parts_edited(args, tags), "by": by or ""}
        return await self._each("jobs/edit", ids, args=args or "", tags=new_tags, **told)

    async def reprioritise(
        self, ids: Sequence[JobId], priority: int, by: str | None = None
    ) -> list[JobId]:
        return await self._each("jobs/reprioritise", ids, priority=priority, by=by or "")

    async def move(self, ids: Sequence[JobId], queue: str, by: str | None = None) -> list[JobId]:
        return await self._each("jobs/move", ids, queue=queue, by=by or "")

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._each("jobs/delete", ids)

    async def _each(self, verb: str, ids: Sequence[JobId], **given: object) -> list[JobId]:
        """Run a verb on chosen jobs; answers the jobs that it changed."""
        found: list[JobId] = []
        for some in batches(dict.fromkeys(ids), CHOSEN_BATCH):
            by_partition = self._connections.by_partition(some).items()
            calls: list[Call] = [(verb, p, {**given, "chosen": mine}) for p, mine in by_partition]
            for answer in await self._connections.call_each(calls):
                found += ids_of(answer)
        return found

    async def _arriving(self, verb: str, ids: Sequence[JobId], **given: object) -> list[JobId]:
        """The same for a verb that puts jobs at the end of their lines. They arrive in the order
        in which they are named."""
        found: list[JobId] = []
        for some in batches(dict.fromkeys(ids), CHOSEN_BATCH):
            places = {job_id: index for index, job_id in enumerate(some)}
            base = await self._connections.arrivals(1)
            calls: list[Call] = []
            for partition, mine in self._connections.by_partition(some).items():
                chosen = [(job_id, places[JobId(job_id)]) for job_id in mine]
                calls.append((verb, partition, {**given, "arrival": base, "chosen": chosen}))
            for answer in await self._connections.call_each(calls):
                found += ids_of(answer)
        return found
