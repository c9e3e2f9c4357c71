"""Unique keys: which jobs count as the same."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.job.state import LIVE, JobState

OnConflict = Literal["keep", "replace", "debounce"]


class Unique(msgspec.Struct, frozen=True):
    """At most one job may hold `key` while it is in one of `states`.

    `key` carries its scope already (task or queue), so stores compare plain text.
    """

    key: str
    states: frozenset[JobState] = LIVE
    on_conflict: OnConflict = "keep"
