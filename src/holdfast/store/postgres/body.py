"""The body of a job in scripts and in their parameters.

A script that writes bodies has the body's columns behind its own parameters, so that its own keep
their numbers when a body grows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.job.record import NewJob
from holdfast.store.body import BODY, LISTS, SHARED, body_reader

_encoder = msgspec.json.Encoder()
_PARAMETER = re.compile(r"\$(\d+)")


def body_words(script: str) -> Mapping[str, str]:
    """What a script may say in braces, for the numbers that are free behind its own parameters."""
    first = 1 + max(map(int, _PARAMETER.findall(script)), default=0)
    numbered = list(enumerate(BODY, first))
    return {
        "body": ", ".join(BODY),
        "body_of_job": ", ".join(f"job.{name}" for name in BODY),
        "body_arrays": ", ".join(f"${number}::text[]" for number, _ in numbered),
        "body_values": ", ".join(f"${number}::text{_cast(name)}" for number, name in numbered),
        "body_given": ", ".join(name + _cast(name) for name in BODY),
        "shared": ", ".join(SHARED),
        "shared_values": ", ".join(
            f"${number}::text{_cast(name)}" for number, name in enumerate(SHARED, first)
        ),
    }


def _cast(name: str) -> str:
    """A list travels as text (`array_literal`) and is stored as an array."""
    return "::text[]" if name in LISTS else ""


def array_literal(texts: Sequence[str]) -> str:
    r"""One array as text, because arrays of unequal length cannot travel as one parameter.

    >>> array_literal(["a", 'b"c', "d\\e"])
    '{"a","b\\"c","d\\\\e"}'
    """
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


def list_as_text(texts: Sequence[str | None]) -> str:
    """Many texts as one JSON list: the driver looks at each value of an array as long as the
    server takes to insert it."""
    return _encoder.encode(texts).decode()


body_values = body_reader(flat=array_literal, empty="{}")
"""The parameters of `{{body_values}}`, from a new job."""


shared_values = body_reader(SHARED, flat=array_literal, empty="{}")
"""The parameters of `{{shared_values}}`, from one of the jobs."""


def body_arrays(jobs: Sequence[NewJob]) -> list[list[object]]:
    """The parameters of `{{body_arrays}}`: one array for each column."""
    return [*map(list, zip(*map(body_values, jobs), strict=True))]
