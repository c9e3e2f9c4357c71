"""What to send to a service or a bucket so that it can refuse an attempt that has lost its job."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.context import Context
from holdfast.errors import Outrun

JOB_HEADER = "Holdfast-Job"
FENCE_HEADER = "Holdfast-Fence"
_JOB, _FENCE = "holdfast-job", "holdfast-fence"


def fence_headers(ctx: Context) -> dict[str, str]:
    """Headers for a request by this attempt. The service keeps the greatest fence it has seen of
    each job, and refuses a smaller one. `Idempotency-Key` is the same for every attempt of a job,
    so a service that knows it does the work once."""
    job = str(ctx.job.id)
    return {"Idempotency-Key": job, JOB_HEADER: job, FENCE_HEADER: str(ctx.fence)}


class Precondition(msgspec.Struct, frozen=True):
    """What to write an object with. The bucket refuses the write if another one came first: then
    look at the object again and ask anew. `if_match` is the ETag of the version that was looked at;
    if there was none, `if_none_match` is `"*"`."""

    metadata: dict[str, str]
    if_match: str | None = None
    if_none_match: str | None = None


def precondition(ctx: Context, etag: str | None, metadata: Mapping[str, str]) -> Precondition:
    """The condition under which this attempt may replace an object whose ETag and metadata were
    just read; an ETag of None is an object that does not exist. `Outrun` is raised if a newer
    attempt of this job wrote it."""
    own = {_JOB: str(ctx.job.id), _FENCE: str(ctx.fence)}
    if etag is None:
        return Precondition(own, if_none_match="*")
    found = {key.lower(): value for key, value in metadata.items()}
    fence = found.get(_FENCE, "")
    if found.get(_JOB) == own[_JOB] and fence.isdecimal() and int(fence) > ctx.fence:
        raise Outrun(f"object {etag}", ctx.job.id, ctx.fence)
    return Precondition(own, if_match=etag)
