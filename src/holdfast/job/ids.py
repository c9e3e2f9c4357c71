"""The ids of jobs and workers."""

from __future__ import annotations

import zlib
from typing import NewType

import uuid_utils

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)


def new_job_id(beside: str | None = None, *, limited: bool = False) -> JobId:
    """A UUIDv7: minted by the client, so an insert can be repeated; sorts by creation.

    Its last three digits say in which partition the job lies, where a store has several. Jobs
    minted `beside` the same text, such as a unique key, lie in the same one. `limited`: the job
    passes limits, so it lies in the first partition, where all buckets are.
    """
    minted = str(uuid_utils.uuid7())
    if beside is None and not limited:  # nearly all are
        return JobId(minted)
    return JobId(placed_id(minted, beside, limited))


def placed_id(minted: str, beside: str | None, limited: bool) -> str:
    """An id with the digits of its partition."""
    if beside is not None:
        return f"{minted[:-3]}{partition_bits(beside):03x}"
    return f"{minted[:-3]}000" if limited else minted


def is_limited_id(minted: str) -> bool:
    """Whether an id was minted as that of a job or flow that passes limits, or beside one."""
    return minted.endswith("000")


def partition_bits(text: str) -> int:
    """Twelve bits that say where what belongs to this text lies; the same in every program."""
    return zlib.crc32(text.encode()) & 0xFFF


def new_worker_id() -> WorkerId:
    """Fresh at every start, so that a zombie never shares its name with a replacement."""
    return WorkerId(str(uuid_utils.uuid7()))
