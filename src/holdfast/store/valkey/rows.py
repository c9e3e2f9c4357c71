"""Between the rows of the store (`layout.py`) and the records of the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from holdfast.job.happening import Happening
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Claimed, ErrorEntry, Job, Live, NewJob, Progress
from holdfast.job.state import ENDED, JobState
from holdfast.job.what import What
from holdfast.store.body import BODY, SHOWN, body_of
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Outcome
from holdfast.store.valkey.layout import (
    AuditRow,
    Body,
    BucketRow,
    ErrorRow,
    FailureRow,
    HappeningRow,
    LedgerRow,
    Maybe,
    OperationRow,
    ProgressRow,
    QueueRow,
    Record,
    RuleRow,
    ScheduleRow,
    ShelfRow,
    WorkerRow,
)
from holdfast.store.valkey.moments import to_datetime, to_optional_datetime
from holdfast.store.valkey.spread import SPREADS, without_spread

STATES = {state.value: state for state in JobState}
PAIR = b"\x92"  # begins a MessagePack list of two values
TRIPLE = b"\x93"  # and one of three

T = TypeVar("T")

pack = msgspec.msgpack.Encoder().encode
to_record = msgspec.msgpack.Decoder(Record).decode
to_body = msgspec.msgpack.Decoder(Body).decode
to_progress_row = msgspec.msgpack.Decoder(ProgressRow).decode
to_failure_row = msgspec.msgpack.Decoder(FailureRow).decode
to_rule_row = msgspec.msgpack.Decoder(RuleRow).decode
to_bucket_row = msgspec.msgpack.Decoder(BucketRow).decode
to_queue_row = msgspec.msgpack.Decoder(QueueRow).decode
to_worker_row = msgspec.msgpack.Decoder(WorkerRow).decode
to_schedule_row = msgspec.msgpack.Decoder(ScheduleRow).decode
to_audit_row = msgspec.msgpack.Decoder(AuditRow).decode
to_operation_row = msgspec.msgpack.Decoder(OperationRow).decode
to_shelf_row = msgspec.msgpack.Decoder(ShelfRow).decode
to_ledger_row = msgspec.msgpack.Decoder(LedgerRow).decode
_to_happening = msgspec.msgpack.Decoder(HappeningRow).decode
_to_failure = msgspec.msgpack.Decoder(tuple[HappeningRow, ErrorRow]).decode
_to_sample = msgspec.msgpack.Decoder(tuple[int, str, ErrorRow]).decode


def known(value: T | Maybe) -> T | None:
    """None for False, with which a row says that it has no such value."""
    return None if isinstance(value, bool) else value


def readable(read: Callable[..., T], *blobs: Any) -> T | None:
    """What these blobs say. None if a blob is missing or something other than holdfast wrote it:
    doctor shows such a job, and views and sweeps go on without it."""
    try:
        return read(*blobs)
    except (msgspec.DecodeError, LookupError, TypeError, ValueError):
        return None


def nested(blob: bytes) -> msgspec.Raw:
    """Packed bytes as a value inside a list. They are marked as text, the only kind of bytes that
    scripts know."""
    size = len(blob)
    if size < 32:
        return msgspec.Raw(bytes([0xA0 + size]) + blob)
    if size < 256:
        return msgspec.Raw(b"\xd9" + size.to_bytes(1, "big") + blob)
    if size < 65_536:
        return msgspec.Raw(b"\xda" + size.to_bytes(2, "big") + blob)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + blob)


def body(job: NewJob, index: int) -> bytes:
    """A packed `Body`; from a tuple, since that is packed as the same list."""
    return pack((*body_of(job), index % SPREADS))


def list_head(size: int) -> bytes:
    """Begins a packed list of so many values."""
    return bytes([0x90 + size]) if size < 16 else b"\xdc" + size.to_bytes(2, "big")


def around_args(job: NewJob) -> tuple[bytes, bytes]:
    """What stands before the arguments in the packed `Body` of a job, and behind them up to the
    spread."""
    at, values = BODY.index("args"), [pack(value) for value in body_of(job)]
    return list_head(len(values) + 1) + b"".join(values[:at]), b"".join(values[at + 1 :])


def error_row(error: ErrorEntry) -> bytes:
    return pack(
        ErrorRow(error.attempt, error.kind, error.message, error.traceback, error.fingerprint)
    )


def queue_row(settings: QueueSettings) -> bytes:
    """A queue that is neither paused nor cooling."""
    return pack(QueueRow(False, False, 0, msgspec.structs.asdict(settings)))


def claimed(job_id: bytes, blob: bytes, text: bytes | None, progress: bytes | None) -> Claimed:
    row, told = to_record(blob), to_body(text or b"")
    return Claimed(
        JobId(job_id.decode()),
        row.task,
        row.queue,
        row.priority,
        told.args,
        told.policy,
        row.attempts,
        row.crashes,
        row.fence,
        to_datetime(row.created_at),
        to_datetime(row.ready_at),
        to_datetime(row.claimed_at),
        None if row.deadline_at is False else to_datetime(row.deadline_at),
        told.tags,
        told.headers,
        None if progress is None else known(to_progress_row(progress).checkpoint),
        row.ahead,
        row.ties,
    )


def live(job_id: str, blob: bytes, text: bytes) -> Live:
    row = to_record(blob)
    return Live(
        JobId(job_id),
        STATES[row.state],
        row.queue,
        row.task,
        to_body(text).policy,
        row.attempts,
        row.crashes,
        row.fence,
        _worker(row),
        row.cancel_at is not False,
        row.ahead,
        to_optional_datetime(row.claimed_at),
        row.ties,
    )


def job(job_id: str, blob: bytes, text: bytes, progress: bytes | None, errors: list[bytes]) -> Job:
    row, told = to_record(blob), to_body(text)
    state = STATES[row.state]
    waits = state in (JobState.SCHEDULED, JobState.SUSPENDED)
    return Job(
        id=JobId(job_id),
        task=row.task,
        queue=row.queue,
        state=state,
        priority=row.priority,
        created_at=to_datetime(row.created_at),
        attempts=row.attempts,
        crashes=row.crashes,
        fence=row.fence,
        ties=row.ties,
        unique_key=known(row.key),
        deadline_at=to_optional_datetime(row.deadline_at),
        due_at=to_optional_datetime(row.at) if waits else None,
        worker_id=_worker(row),
        claimed_at=to_optional_datetime(row.claimed_at),
        cancel_requested_at=to_optional_datetime(row.cancel_at),
        finished_at=to_optional_datetime(row.at) if state in ENDED else None,
        expires_at=to_optional_datetime(row.expires_at),
        result_json=_result(row),
        reason=known(row.reason),
        progress=None if progress is None else _progress(progress),
        errors=tuple(_error(entry) for entry in errors),
        **dict(zip(map(SHOWN.__getitem__, BODY), body_of(told), strict=True)),
    )


def outcome(job_id: str, blob: bytes) -> Outcome | None:
    """None while the job is live."""
    row = to_record(blob)
    state = STATES[row.state]
    if state not in ENDED:
        return None
    return Outcome(JobId(job_id), state, _result(row), known(row.reason), known(row.fingerprint))


def _worker(row: Record) -> WorkerId | None:
    return None if isinstance(row.worker, bool) else WorkerId(row.worker)


def _result(row: Record) -> str | None:
    return None if isinstance(row.result, bool) else without_spread(row.result)


def _error(entry: bytes) -> ErrorEntry:
    row, error = _to_failure(PAIR + entry)
    return _dated(row.at, error)


def sample(blob: bytes) -> tuple[JobId, ErrorEntry]:
    """A sample of a failure: whose error it is, and the error."""
    at, job_id, row = _to_sample(TRIPLE + blob)
    return JobId(job_id), _dated(at, row)


def _dated(at: int, row: ErrorRow) -> ErrorEntry:
    return ErrorEntry(
        row.attempt, row.kind, row.message, row.traceback, to_datetime(at), row.fingerprint
    )


def life(job_id: str, errors: list[bytes], others: list[bytes]) -> list[Happening]:
    """The happenings of one job, from its two lists."""
    told: list[tuple[HappeningRow, ErrorRow | None]] = [
        *(_to_failure(PAIR + entry) for entry in errors),
        *((_to_happening(entry), None) for entry in others),
    ]
    return [_happening(job_id, *one) for one in sorted(told, key=lambda one: one[0].n)]


def _happening(job_id: str, row: HappeningRow, error: ErrorRow | None) -> Happening:
    return Happening(
        job_id=JobId(job_id),
        at=to_datetime(row.at),
        what=What(row.what),
        attempt=row.attempt,
        fence=row.fence,
        worker_id=None if isinstance(row.worker, bool) else WorkerId(row.worker),
        claimed_at=to_optional_datetime(row.claimed_at),
        due_at=to_optional_datetime(row.due_at),
        by=known(row.by),
        kind=error.kind if error else None,
        message=error.message if error else known(row.message),
        traceback=error.traceback if error else None,
        fingerprint=error.fingerprint if error else None,
    )


def _progress(blob: bytes) -> Progress:
    row = to_progress_row(blob)
    return Progress(
        known(row.fraction), known(row.message), known(row.checkpoint), to_datetime(row.at)
    )


def line_name(queue: str, task: str) -> str:
    """The name of the line of one task in one queue, as `lua/parts/names.lua` makes it."""
    return f"{len(queue.encode())}:{queue}:{task}"


@lru_cache(maxsize=8_192)
def split_count(field: str) -> tuple[str, str, str]:
    """A field of the counts: a word, and the name of a line. Whoever looks at the books reads the
    same fields again and again."""
    word, name = field.split(":", 1)
    return word, *split_line(name)


def split_line(name: str) -> tuple[str, str]:
    """The name of a line: the length of the queue's name in bytes, queue, task."""
    size, rest = name.split(":", 1)
    text = rest.encode()
    queue, task = text[: int(size)], text[int(size) + 1 :]
    return queue.decode(), task.decode()
