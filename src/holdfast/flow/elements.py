"""The names and ids of a map's elements: they follow from the name and the id of the map, so that a
map that is tried again makes the same.

When the elements of a map have been removed and it makes new ones, these have other ids: nothing
that knows an old element by its id can take a new one for it."""

from __future__ import annotations

from typing import cast

from holdfast.job.ids import JobId

_TAIL = (1 << 36) - 1
_STRIDE = 0x9E3779B97  # odd: no two elements have the same tail
_ANEW = 0x5851F42D3  # odd: an element has another tail each time it is made anew


def element_ids(map_job: JobId, indexes: range, anew: int = 0) -> list[JobId]:
    """The ids of the jobs for these elements of a map, whose elements have been removed `anew`
    times. Elements follow each other in the order of
    ids, so that those which are written together lie together. The tail is that of the map, moved
    on: all its digits vary, which scripts on Valkey need (`store/valkey/spread.py`), and elements
    of different maps are as different as the maps. The variant differs from the map's own."""
    variant = "89ab"[(int(map_job[19], 16) + 1) % 4]
    head, first, end = map_job[:14], int(map_job[24:33], 16) + anew * _ANEW, map_job[-3:]
    ids = [
        f"{head}7{index >> 12:03x}-{variant}{index & 0xFFF:03x}"
        f"-{first + index * _STRIDE & _TAIL:09x}{end}"
        for index in indexes
    ]
    return cast("list[JobId]", ids)


def element_names(map_name: str, indexes: range) -> list[str]:
    return [f"{map_name}[{index}]" for index in indexes]
