"""The ids of jobs and workers."""

from __future__ import annotations

import zlib
from typing import NewType

import uuid_utils

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)


def new_job_id(beside: str | None = None) -> JobId:
    """A UUIDv7: minted by the client, so an insert can be repeated; sorts by creation.

    Its last three digits say in which partition the job lies, where a store has several. Jobs
    minted `beside` the same text, such as a unique key, lie in the same one.
    """
    if beside is None:
        return JobId(str(uuid_utils.uuid7()))
    return JobId(f"{str(uuid_utils.uuid7())[:-3]}{partition_bits(beside):03x}")


def partition_bits(text: str) -> int:
    """Twelve bits that say where what belongs to this text lies; the same in every program."""
    return zlib.crc32(text.encode()) & 0xFFF


def new_worker_id() -> WorkerId:
    """Fresh at every start, so that a zombie never shares its name with a replacement."""
    return WorkerId(str(uuid_utils.uuid7()))
