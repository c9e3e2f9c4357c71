"""The body of a job: what it was enqueued with, which a store writes once and gives back as it was.

A field that `NewJob` and `Job` share belongs to the body, unless it lies on the narrow row, which
moves with the job from place to place. `Job` calls a text `args_json` that `NewJob` calls `args`,
because its `args` is the value of that text.

Every store takes the columns of its body from here. So a new field of both records is written by
each way in and read back, without a change to a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.job.record import Job, NewJob

NARROW = frozenset({"id", "task", "queue", "priority", "ties", "deadline_at"})
"""The fields of a new job that have a place of their own in every store."""

Texts = tuple[str, ...]


SHOWN = {name.removesuffix("_json"): name for name in Job.__struct_fields__}
"""The name of a field on `Job`, by its name on `NewJob`."""


def _types() -> dict[str, Any]:
    given = {field.name: field.type for field in msgspec.structs.fields(NewJob)}
    return {name: kind for name, kind in given.items() if name in SHOWN and name not in NARROW}


def _lists(types: dict[str, Any]) -> frozenset[str]:
    if strange := [name for name, kind in types.items() if kind not in (str, str | None, Texts)]:
        raise TypeError(
            f"no store can keep NewJob.{strange[0]}: the body of a job has texts and lists of "
            "texts. Teach the stores another type, or encode it as text"
        )
    return frozenset(name for name, kind in types.items() if kind == Texts)


BODY = tuple(_types())
"""The names of the fields: `args`, `policy`, `tags` and so on."""
SHARED = tuple(name for name in BODY if name != "args")
"""Those that jobs of one kind have in common."""
LISTS = _lists(_types())
"""Those of them that are lists of texts. The others are texts."""

Values = tuple[Any, ...]


def body_reader(
    names: Sequence[str] = BODY, flat: Callable[[Texts], object] | None = None, empty: object = ()
) -> Callable[[Any], Values]:
    """A function that takes these fields from a record: each list as the one value that `flat`
    makes of it, or as `empty`.

    It is made from text, as the classes of `namedtuple` are, because it runs for every job that
    comes in: an `attrgetter` and a loop over its values would take five times as long.
    """
    lists = "flat(job.{0}) if job.{0} else empty" if flat else "job.{0}"
    values = [lists.format(name) if name in LISTS else f"job.{name}" for name in names]
    scope = {"flat": flat, "empty": empty}
    made: Callable[[Any], Values] = eval(f"lambda job: ({', '.join(values)},)", scope)
    return made


body_of = body_reader()
"""The values of a body, from any record that has its fields."""
