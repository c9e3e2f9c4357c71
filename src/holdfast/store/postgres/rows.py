"""Rows become the records of the vocabulary: by the names of their columns, but for the hot one."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.job.happening import Happening
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Claimed, ErrorEntry, Job, Live, NodeFacts, Progress
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.schedule.model import Decision, LedgerEntry, Schedule, decode_definition
from holdfast.store.body import BODY, LISTS, SHOWN
from holdfast.store.contract.facts import WorkerFacts
from holdfast.store.contract.queues import QueueInfo, QueueSettings
from holdfast.store.contract.records import Outcome
from holdfast.store.contract.workers import WorkerInfo, counts_in

_errors = msgspec.json.Decoder(tuple[ErrorEntry, ...])

STATES = {state.value: state for state in JobState}


@lru_cache(maxsize=256)
def moment(seconds: float) -> datetime:
    """Cached: jobs of one claim share a moment, and jobs of one enqueue share another."""
    return datetime.fromtimestamp(seconds, UTC)


def claimed(row: Any, node: NodeFacts | None = None) -> Claimed:
    """From a row of claim.sql or lost_claims.sql, in the order of its columns: this is the hot
    one, so columns are not looked up by name, and few are converted."""
    (
        job_id,
        task,
        queue,
        priority,
        args,
        policy,
        attempts,
        crashes,
        fence,
        created_at,
        ready_at,
        claimed_at,
        deadline_at,
        tags,
        headers,
        checkpoint,
        ahead,
        ties,
        *_,
    ) = row
    created = moment(created_at)
    return Claimed(
        job_id,
        task,
        queue,
        priority,
        args,
        policy,
        attempts,
        crashes,
        fence,
        created,
        created if ready_at is None else moment(ready_at),
        moment(claimed_at),
        deadline_at,
        () if tags is None else tuple(tags),
        headers,
        checkpoint,
        ahead,
        ties,
        node,
    )


def live(row: Any) -> Live:
    return Live(
        id=JobId(str(row["job_id"])),
        state=STATES[row["state"]],
        queue=row["queue"],
        task=row["task"],
        policy=row["policy"],
        attempts=row["attempts"],
        crashes=row["crashes"],
        fence=row["fence"],
        worker_id=worker(row["worker_id"]),
        cancel_requested=row["cancel_requested"],
        ahead=row["ahead"],
        claimed_at=row["claimed_at"],
        ties=row["ties"],
    )


def job(row: Any) -> Job:
    return Job(
        id=JobId(str(row["id"])),
        task=row["task"],
        queue=row["queue"],
        state=STATES[row["state"]],
        priority=row["priority"],
        created_at=row["created_at"],
        attempts=row["attempts"],
        crashes=row["crashes"],
        fence=row["fence"],
        ties=row["ties"],
        unique_key=row["unique_key"],
        deadline_at=row["deadline_at"],
        due_at=row["due_at"],
        worker_id=worker(row["worker_id"]),
        claimed_at=row["claimed_at"],
        cancel_requested_at=row["cancel_requested_at"],
        finished_at=row["finished_at"],
        expires_at=row["expires_at"],
        result_json=row["result"],
        reason=row["reason"],
        progress=_progress(row),
        errors=() if row["errors"] is None else _errors.decode(row["errors"]),
        **_body(row),
    )


def _body(row: Any) -> dict[str, Any]:
    return {SHOWN[name]: tuple(row[name]) if name in LISTS else row[name] for name in BODY}


def outcome(row: Any) -> Outcome:
    return Outcome(
        JobId(str(row["job_id"])),
        STATES[row["state"]],
        row["result"],
        row["reason"],
        row["fingerprint"],
    )


def happening(row: Any) -> Happening:
    return Happening(
        job_id=JobId(str(row["job_id"])),
        at=row["at"],
        what=What(row["what"]),
        attempt=row["attempt"],
        fence=row["fence"],
        worker_id=worker(row["worker_id"]),
        claimed_at=row["claimed_at"],
        due_at=row["due_at"],
        by=row["by"],
        kind=row["kind"],
        message=row["message"],
        traceback=row["traceback"],
        fingerprint=row["fingerprint"],
    )


def _progress(row: Any) -> Progress | None:
    if row["progress_at"] is None:
        return None
    return Progress(row["fraction"], row["message"], row["checkpoint"], row["progress_at"])


def worker(value: object) -> WorkerId | None:
    return None if value is None else WorkerId(str(value))


def worker_info(row: Any) -> WorkerInfo:
    return WorkerInfo(
        id=WorkerId(str(row["id"])),
        name=row["name"],
        host=row["host"],
        pid=row["pid"],
        queues=counts_in(row["queues"]),
        tasks=tuple(row["tasks"]),
        version=row["version"],
        started_at=row["started_at"],
        heartbeat_at=row["heartbeat_at"],
        expires_in=row["expires_in"],
        running=row["running"],
        facts=WorkerFacts.from_json(row["facts"]),
        drain_requested_at=row["drain_requested_at"],
        lease=row["lease"],
        alive_since=row["alive_since"],
        read_at=row["read_at"],
    )


def queue_info(row: Any) -> QueueInfo:
    return QueueInfo(
        name=row["name"],
        paused=row["paused"],
        cooling_for=row["cooling_for"],
        throttles=row["throttles"],
        settings=QueueSettings.from_json(row["settings"]),
        counts={
            STATES[state]: jobs for state, jobs in zip(row["states"], row["jobs"], strict=True)
        },
        oldest_ready_age=row["oldest_ready_age"],
    )


def schedule(row: Any) -> Schedule:
    return Schedule(
        name=row["name"],
        definition=decode_definition(row["definition"]),
        paused=row["paused"],
        edited=row["edited"],
        revision=row["revision"],
        created_at=row["created_at"],
        declared_at=row["declared_at"],
        error=row["error"],
        error_at=row["error_at"],
        paused_at=row["paused_at"],
        resumed_at=row["resumed_at"],
        changed_at=row["changed_at"],
        rival=None if row["rival"] is None else decode_definition(row["rival"]),
        rival_at=row["rival_at"],
        pruned_from=row["pruned_from"],
        pruned_until=row["pruned_until"],
    )


def ledger_entry(row: Any) -> LedgerEntry:
    return LedgerEntry(
        schedule=row["schedule"],
        scope=row["scope"],
        at=row["at"],
        decision=Decision(row["decision"]),
        reason=row["reason"],
        recorded_at=row["recorded_at"],
        job_id=None if row["job_id"] is None else JobId(str(row["job_id"])),
        state=None if row["state"] is None else STATES[row["state"]],
        attempts=row["attempts"],
        claimed_at=row["claimed_at"],
        finished_at=row["finished_at"],
        result_json=row["result"],
        error=row["error"],
    )
