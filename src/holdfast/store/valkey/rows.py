"""Between Python's values and the store's: times are integer microseconds since 1970 UTC.

A record is a MessagePack list of 24 values, false where there is none (`lua/parts/record.lua` names
them); that of a job which a plan started has one more.

**Salt.** Lua keeps each string once, in a table by its hash, and of a long string it hashes some
thirty bytes only, counted from the last. Records of one batch, their bodies and their results are
alike in most places, so they tend to fall on one hash, and then each new one is compared with all
before it. Whatever a script reads or writes by the hundred therefore ends with a byte that varies.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Claimed, ErrorEntry, Job, Live, Progress
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.records import Outcome, QueueSettings

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
# The last moment a datetime can say. Numbers of this size are rounded on their way through Lua.
LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

STATE, QUEUE, PRIORITY, SEQ, TASK, ATTEMPTS, CRASHES, FENCE = range(8)
READY_AT, AT, WORKER, CLAIMED_AT, TIMEOUT, CANCEL_AT = range(8, 14)
DEADLINE_AT, CREATED_AT, REASON, EXPIRES_AT, RESULT, KEY = range(14, 20)
AHEAD = 22
RECORD = 24  # values in all
SALTS = string.ascii_letters + string.digits

STATES = {state.value: state for state in JobState}

T = TypeVar("T")

pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


def to_micros(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


@lru_cache(maxsize=512)
def to_datetime(micros: int) -> datetime:
    """Jobs of one claim share a moment, and jobs of one enqueue share another."""
    return EPOCH + timedelta(microseconds=min(int(micros), LATEST))


def to_optional_datetime(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)


def seconds_until(moment: float, now: datetime) -> float:
    return (moment - to_micros(now)) / SECOND


def finite(seconds: float | None) -> float | None:
    """Beyond any calendar is as good as never; a script cuts it to the calendar's end."""
    if seconds is None or math.isfinite(seconds):
        return seconds
    return float(LATEST)


def record(blob: bytes) -> list[Any]:
    return [None if value is False else value for value in _unpack(blob)]


def readable(read: Callable[..., T], *blobs: Any) -> T | None:
    """What these blobs say, or None where one is missing or was written by something else than
    holdfast: doctor shows such a job, and views and sweeps go on without it."""
    try:
        return read(*blobs)
    except (msgspec.DecodeError, LookupError, TypeError, ValueError):
        return None


def values(blob: bytes, count: int) -> list[Any]:
    """So many MessagePack values, at most 15."""
    found: list[Any] = _unpack(bytes([0x90 + count]) + blob)
    return found


def body(args: str, policy: str, tags: tuple[str, ...], headers: str | None, salt: int) -> bytes:
    """Opaque to scripts but for the policy, which must stay the second value."""
    return pack((args, policy, tags, headers, salt % len(SALTS)))


def salted(result: str, salt: int) -> str:
    return result + SALTS[salt % len(SALTS)]


def unsalted(result: str | None) -> str | None:
    return None if result is None else result[:-1]


def nested(blob: bytes) -> msgspec.Raw:
    """Bytes as a value inside a list: marked as text, since scripts know no other kind."""
    size = len(blob)
    if size < 32:
        return msgspec.Raw(bytes([0xA0 + size]) + blob)
    if size < 256:
        return msgspec.Raw(b"\xd9" + size.to_bytes(1, "big") + blob)
    if size < 65_536:
        return msgspec.Raw(b"\xda" + size.to_bytes(2, "big") + blob)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + blob)


@lru_cache(maxsize=1024)
def ready_record(
    queue: str, task: str, priority: int, timeout: float | None
) -> tuple[msgspec.Raw, ...]:
    """The record of a new job that is ready, but for its arrival number, the moment and the salt:
    what comes before the number, before the moment it became ready, before that of its creation,
    and before the salt."""
    none = pack(False)
    before_seq = b"\xdc" + RECORD.to_bytes(2, "big") + _packed("ready", queue, priority) + b"\xb1"
    before_ready_at = _packed(task, 0, 0, 0)
    before_created_at = 3 * none + pack(False if timeout is None else timeout) + 2 * none
    pieces = (before_seq, before_ready_at, before_created_at, (RECORD - CREATED_AT - 2) * none)
    return tuple(nested(piece) for piece in pieces)


def _packed(*values: object) -> bytes:
    return b"".join(pack(value) for value in values)


def claimed(job_id: bytes, blob: bytes, text: bytes | None, progress: bytes | None) -> Claimed:
    row = _unpack(blob)
    args, policy, tags, headers, _ = _unpack(text or b"")
    return Claimed(
        JobId(job_id.decode()),
        row[TASK],
        row[QUEUE],
        row[PRIORITY],
        args,
        policy,
        row[ATTEMPTS],
        row[CRASHES],
        row[FENCE],
        to_datetime(row[CREATED_AT]),
        to_datetime(row[CLAIMED_AT]),
        None if row[DEADLINE_AT] is False else to_datetime(row[DEADLINE_AT]),
        tuple(tags),
        headers,
        None if progress is None else values(progress, 4)[2],
        row[AHEAD],
    )


def live(job_id: str, blob: bytes, text: bytes) -> Live:
    row = record(blob)
    worker = row[WORKER]
    return Live(
        JobId(job_id),
        STATES[row[STATE]],
        row[QUEUE],
        row[TASK],
        _unpack(text)[1],
        row[ATTEMPTS],
        row[CRASHES],
        row[FENCE],
        None if worker is None else WorkerId(worker),
        row[CANCEL_AT] is not None,
        row[AHEAD] is True,
        to_optional_datetime(row[CLAIMED_AT]),
    )


def job(job_id: str, blob: bytes, text: bytes, progress: bytes | None, errors: list[bytes]) -> Job:
    row = record(blob)
    state = STATES[row[STATE]]
    args, policy, tags, headers, _ = _unpack(text)
    waits = state in (JobState.SCHEDULED, JobState.SUSPENDED)
    expires_at = row[EXPIRES_AT]
    return Job(
        id=JobId(job_id),
        task=row[TASK],
        queue=row[QUEUE],
        state=state,
        priority=row[PRIORITY],
        args=args,
        policy=policy,
        created_at=to_datetime(row[CREATED_AT]),
        attempts=row[ATTEMPTS],
        crashes=row[CRASHES],
        fence=row[FENCE],
        tags=tuple(tags),
        headers=headers,
        unique_key=row[KEY],
        deadline_at=to_optional_datetime(row[DEADLINE_AT]),
        due_at=to_optional_datetime(row[AT]) if waits else None,
        worker_id=None if row[WORKER] is None else WorkerId(row[WORKER]),
        claimed_at=to_optional_datetime(row[CLAIMED_AT]),
        cancel_requested_at=to_optional_datetime(row[CANCEL_AT]),
        finished_at=None if expires_at is None else to_optional_datetime(row[AT]),
        expires_at=to_optional_datetime(expires_at),
        result=unsalted(row[RESULT]),
        reason=row[REASON],
        progress=None if progress is None else _progress(progress),
        errors=tuple(_error(entry) for entry in errors),
    )


def error_values(error: ErrorEntry) -> bytes:
    """Without the header of a list: the script puts its time before them."""
    return pack((error.attempt, error.kind, error.message, error.traceback))[1:]


def outcome(job_id: str, blob: bytes) -> Outcome | None:
    """None while the job is live."""
    row = record(blob)
    state = STATES[row[STATE]]
    if state not in ENDED:
        return None
    return Outcome(JobId(job_id), state, unsalted(row[RESULT]), row[REASON])


def _error(entry: bytes) -> ErrorEntry:
    at, attempt, kind, message, traceback = values(entry, 5)
    return ErrorEntry(attempt, kind, message, traceback, to_datetime(at))


def _progress(blob: bytes) -> Progress:
    fraction, message, checkpoint, at = values(blob, 4)
    return Progress(
        None if fraction is None else float(fraction), message, checkpoint, to_datetime(at)
    )


def queue_row(settings: QueueSettings) -> bytes:
    """A queue that is neither paused nor cooling, as `lua/parts/queues.lua` describes it."""
    told = (
        settings.throttle_base,
        settings.throttle_cap,
        settings.retain_succeeded,
        settings.retain_failed,
        settings.retain_other,
    )
    return pack((False, None, 0, *told))[1:]


def line_name(queue: str, task: str) -> str:
    return f"{len(queue.encode())}:{queue}:{task}"


def split_count(field: str) -> tuple[JobState, str, str]:
    """A field of the counts: state, length of the queue's name in bytes, queue, task."""
    state, size, rest = field.split(":", 2)
    text = rest.encode()
    queue, task = text[: int(size)], text[int(size) + 1 :]
    return STATES[state], queue.decode(), task.decode()


def paired(answer: Any) -> list[tuple[str, bytes]]:
    """Fields and values of a hash; the driver makes a dict of them on some routes only."""
    if isinstance(answer, dict):
        return [(field.decode(), value) for field, value in answer.items()]
    return [(field.decode(), value) for field, value in zip(answer[::2], answer[1::2], strict=True)]


def scored(answer: Any) -> list[tuple[str, float]]:
    """Members and scores; the driver pairs them on some routes only."""
    if answer and isinstance(answer[0], list | tuple):
        return [(member.decode(), float(score)) for member, score in answer]
    return [
        (member.decode(), float(score))
        for member, score in zip(answer[::2], answer[1::2], strict=True)
    ]


def seq(blob: bytes) -> str:
    """The arrival number of a record."""
    found: str = record(blob)[SEQ]
    return found


def bites(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many at a time: a script that takes long keeps everybody else waiting."""
    rest = iter(things)
    while bite := list(islice(rest, size)):
        yield bite
