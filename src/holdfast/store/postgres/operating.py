"""What operators do to jobs, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.errors import StoreUnavailable
from holdfast.job.happening import parts_edited
from holdfast.job.ids import JobId
from holdfast.store.postgres.audit import PostgresAudit
from holdfast.store.postgres.held_keys import (
    KEY_TRY_SECONDS,
    held_among,
    milliseconds,
    waited_in_vain,
)
from holdfast.store.postgres.job_verbs import JobVerbs


class PostgresOperating(JobVerbs):
    """See `holdfast.store.contract.operating.Operating` for what each verb promises."""

    @property
    def audit(self) -> PostgresAudit:
        return PostgresAudit(self._connections)

    async def resume(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        return await self._change("jobs/resume", ids, by)

    async def request_cancel(
        self, ids: Sequence[JobId], by: str | None = None, why: str | None = None
    ) -> list[JobId]:
        distinct = list(dict.fromkeys(ids))
        return await self._change("jobs/request_cancel", distinct, by, [why] * len(distinct))

    async def requeue(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        wait = milliseconds(KEY_TRY_SECONDS)
        try:
            return await self._requeue(ids, wait, by)
        except StoreUnavailable as error:
            if not waited_in_vain(error):
                raise
        return await self._requeue(await self._without_held(ids), wait, by)

    async def _requeue(
        self, ids: Sequence[JobId], key_wait: str | None, by: str | None
    ) -> list[JobId]:
        return await self._change("jobs/requeue", ids, key_wait, by)

    async def _without_held(self, ids: Sequence[JobId]) -> list[JobId]:
        """The jobs whose unique keys no open transaction holds."""
        found = await self._connections.fetch("keys/of_jobs", list(ids))
        held = await held_among(self._connections, sorted({row["key"] for row in found}))
        away = {row["job_id"] for row in found if row["key"] in held}
        return [job_id for job_id in ids if job_id not in away]

    async def reschedule(
        self, ids: Sequence[JobId], due: float | datetime, by: str | None = None
    ) -> list[JobId]:
        distinct = list(dict.fromkeys(ids))
        run_at, delay = (due, None) if isinstance(due, datetime) else (None, due)
        times, delays = [run_at] * len(distinct), [delay] * len(distinct)
        unbounded = [None] * len(distinct)
        return await self._change("jobs/reschedule", distinct, times, delays, unbounded, by, None)

    async def edit(
        self,
        ids: Sequence[JobId],
        args: str | None = None,
        tags: Sequence[str] | None = None,
        by: str | None = None,
    ) -> list[JobId]:
        distinct, new_tags = list(dict.fromkeys(ids)), None if tags is None else list(tags)
        new_args, told = [args] * len(distinct), parts_edited(args, tags)
        return await self._change("jobs/edit", distinct, new_args, new_tags, by, told)

    async def reprioritise(
        self, ids: Sequence[JobId], priority: int, by: str | None = None
    ) -> list[JobId]:
        return await self._change("jobs/reprioritise", ids, priority, by)

    async def move(self, ids: Sequence[JobId], queue: str, by: str | None = None) -> list[JobId]:
        return await self._change("jobs/move", ids, queue, by)

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._run("jobs/delete", self._now(), list(ids))

    async def _change(self, verb: str, ids: Sequence[JobId], *values: object) -> list[JobId]:
        return await self._run(verb, self._now(), self._channel, list(ids), *values)

    async def _run(self, verb: str, *values: object) -> list[JobId]:
        """Run a script that answers with the ids it changed. The skip points are forgotten before
        it and after it: a claim that runs meanwhile may learn points from before the change."""
        self._skip_points.forget()
        found = await self._connections.fetch(verb, *values)
        self._skip_points.forget()
        return [JobId(str(row["job_id"])) for row in found]
