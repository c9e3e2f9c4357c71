"""The policy of a job: what is decided at enqueue and frozen on the job."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from holdfast.errors import BadOption, Unreadable
from holdfast.job import checks
from holdfast.job.retry import Retry
from holdfast.job.state import JobState

DAY = 86_400.0


class Retention(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Seconds an ended job is kept, by how it ended; None is for ever."""

    succeeded: float | None = 7 * DAY
    failed: float | None = 30 * DAY
    other: float | None = 7 * DAY

    def __post_init__(self) -> None:
        for name in ("succeeded", "failed", "other"):
            given = getattr(self, name)
            if given is not None:
                seconds = checks.seconds(f"retention.{name}", given)
                msgspec.structs.force_setattr(self, name, seconds)

    @classmethod
    def forever(cls) -> Retention:
        """Kept until an operator deletes it, however it ended."""
        return cls(None, None, None)

    def keep_for(self, state: JobState) -> float | None:
        match state:
            case JobState.SUCCEEDED:
                return self.succeeded
            case JobState.FAILED:
                return self.failed
            case _:
                return self.other


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is decided at enqueue and frozen on the job.

    Whoever ends an attempt, in whatever program, decides by this record alone. A field that this
    version does not know is therefore not dropped: it makes the policy unreadable, and the job is
    left for a program that knows what the field means.
    """

    retry: Retry = Retry()
    timeout: float | None = None
    max_crashes: int = 3
    retention: Retention = Retention()
    keep_result: bool = True
    start_only: bool = False  # the deadline bounds only the start: see `has_started_in_time`

    def __post_init__(self) -> None:
        checks.kind("retry", self.retry, Retry, "a Retry")
        checks.kind("retention", self.retention, Retention, "a Retention(succeeded=…, failed=…)")
        if self.timeout is not None:
            timeout = checks.seconds("timeout", self.timeout, zero=False)
            msgspec.structs.force_setattr(self, "timeout", timeout)
        crashes = checks.count("max_crashes", self.max_crashes)
        msgspec.structs.force_setattr(self, "max_crashes", crashes)
        checks.flag("keep_result", self.keep_result)
        checks.flag("start_only", self.start_only)


_policy_encoder = msgspec.json.Encoder()
_policy_decoder = msgspec.json.Decoder(Policy)


def encode_policy(policy: Policy) -> str:
    return _policy_encoder.encode(policy).decode()


@lru_cache(maxsize=4096)
def decode_policy(text: str) -> Policy:
    """Most jobs of a task share one policy text, so it is decoded once, not per job."""
    try:
        return _policy_decoder.decode(text)
    except (msgspec.DecodeError, BadOption, UnicodeError) as error:
        raise Unreadable("policy", str(error)) from error


@lru_cache(maxsize=4096)
def readable_part(text: str) -> Policy:
    """As much of a policy as a store needs to know, with defaults where it cannot be read: a job
    of another release is stored, claimed and cancelled all the same."""
    try:
        return decode_policy(text)
    except Unreadable:
        return _known_part(text)


def _known_part(text: str) -> Policy:
    try:
        known = _part_decoder.decode(text)
        return Policy(timeout=known.timeout, retention=known.retention, start_only=known.start_only)
    except (msgspec.DecodeError, BadOption, UnicodeError):
        return Policy()


class _Part(msgspec.Struct):
    timeout: float | None = None
    retention: Retention = Retention()
    start_only: bool = False


_part_decoder = msgspec.json.Decoder(_Part)
