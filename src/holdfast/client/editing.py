"""Editing a waiting job: other arguments, other tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import BadArguments, BadOption, PayloadTooLarge, Refused, UnknownJob
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.sealed import require_open
from holdfast.job.state import WAITING
from holdfast.job.ties import BEGUN
from holdfast.store.contract.joining import JobsWithin

if TYPE_CHECKING:
    from holdfast.handlers.registry import Handler

EDIT_ROUNDS = 10
"""How often a job is read again that moved from one waiting place to another meanwhile."""


class Editor:
    """Replaces arguments and tags of waiting jobs. New arguments are checked by the task's own
    signature where this program knows the task; elsewhere they must be plain JSON values."""

    def __init__(self, tasks: Mapping[str, Handler], max_payload: int | None) -> None:
        self._tasks = tasks
        self._max_payload = max_payload

    async def edit(
        self,
        jobs: JobsWithin,
        job_id: JobId,
        args: Mapping[str, Any] | None,
        tags: Sequence[str] | None,
        by: str | None,
    ) -> None:
        """Edit one job."""
        if args is not None:
            _check_names(args)
        new_tags = None if tags is None else checks.texts("tags", tags, 128, "tag")
        if args is None and new_tags is None:
            raise BadOption("args and tags", "given, at least one of the two", "neither")
        for _ in range(EDIT_ROUNDS):
            job = await _waiting(jobs, job_id)
            if args is not None and job.ties & BEGUN:
                raise Refused(
                    f"job {job_id} has begun: what it has done belongs to the arguments that it "
                    "has. Cancel it, and enqueue a new job with the others; tags can be edited"
                )
            text = None if args is None else self._edited(job, args)
            if await jobs.edit([job.id], text, new_tags, by):
                return
        raise Refused(f"job {job_id} keeps moving: nothing was changed")

    def _edited(self, job: Job, args: Mapping[str, Any]) -> str:
        require_open(job.args_json)
        known = self._tasks.get(job.task) if job.task in self._tasks else None
        if known is not None:
            text = known.signature.edit(job.args_json, args)
        else:
            text = _replaced(job, args)
        size = len(text.encode())
        if self._max_payload is not None and size > self._max_payload:
            raise PayloadTooLarge(f"task {job.task!r}: the arguments", size, self._max_payload)
        return text


def names_changed(args: Mapping[str, Any] | None, tags: Sequence[str] | None) -> dict[str, object]:
    """What an edit changes, for the audit: arguments by their names alone, since their values may
    be secrets."""
    names: dict[str, object] = {}
    if isinstance(args, Mapping):
        names["args"] = sorted(map(str, args))
    if tags is not None:
        names["tags"] = list(tags)
    return names


async def _waiting(jobs: JobsWithin, job_id: JobId) -> Job:
    found = await jobs.get([job_id])
    if not found:
        raise UnknownJob(job_id)
    if found[0].state not in WAITING:
        raise Refused(f"job {job_id} is {found[0].state}: only a waiting job can be edited")
    return found[0]


def _check_names(args: object) -> None:
    if not isinstance(args, Mapping) or not all(isinstance(name, str) for name in args):
        raise BadOption("args", "a mapping of names to values", args)


def _replaced(job: Job, args: Mapping[str, Any]) -> str:
    try:
        given: dict[str, msgspec.Raw] = msgspec.json.decode(
            job.args_json, type=dict[str, msgspec.Raw]
        )
        return msgspec.json.encode({**given, **args}).decode()
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise BadArguments(job.task, f"the arguments cannot be written as JSON: {error}") from error
