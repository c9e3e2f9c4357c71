"""How deep calls are nested, so that a task which calls itself without an end is stopped.

The depth travels in a header of the jobs: every node that a call, a flow task, a map or a growing
flow makes has one. A job that nobody called has no such header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.errors import BadFlow
from holdfast.flow.model import NewNode
from holdfast.job.headers import decode_headers, encode_headers

DEPTH = "holdfast.depth"
"""The header that says how many calls a job is away from a job that nobody called."""
MOST_DEPTH = 100


def depth_of(headers: Mapping[str, Any]) -> int:
    """The depth of a job with these headers, 0 if nobody called it."""
    return int(headers.get(DEPTH, 0))


def depth_of_called(headers: Mapping[str, Any], job: str, what: str) -> int:
    """The depth of what a job with these headers calls."""
    depth = depth_of(headers) + 1
    if depth > MOST_DEPTH:
        raise BadFlow(
            f"{what}: job {job} was called by {MOST_DEPTH} jobs one from another, and may not call "
            "any further; does a task call itself without an end?"
        )
    return depth


def with_depth(headers: str | None, depth: int) -> str | None:
    """The headers of a job of this depth, as JSON."""
    return encode_headers({**decode_headers(headers), DEPTH: str(depth)}) if depth else headers


def nodes_at_depth(nodes: Iterable[NewNode], depth: int) -> tuple[NewNode, ...]:
    """The same nodes, with jobs of this depth."""
    replace = msgspec.structs.replace
    return tuple(
        replace(node, job=replace(node.job, headers=with_depth(node.job.headers, depth)))
        for node in nodes
    )
