"""Results as arguments: which results a node takes, and how they come into its arguments.

The arguments of a node are written without these values. When the node is claimed, the worker reads
the results of the upstreams and puts each in its place. They stay JSON text on the way: no value
passes a float or a Python type before the signature of the node's own function reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.state import JobState


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The result of one node."""

    job: JobId


class Winner(msgspec.Struct, frozen=True, tag="winner"):
    """The result of the node that succeeded first."""

    jobs: tuple[JobId, ...]


class Each(msgspec.Struct, frozen=True, tag="each"):
    """The results of several nodes as a list; null for one that did not succeed."""

    jobs: tuple[JobId, ...]


class Mapped(msgspec.Struct, frozen=True, tag="mapped"):
    """The results of all elements of a map, in their order. `job` is the node that made them, whose
    result is their number."""

    job: JobId


Source = Result | Winner | Each | Mapped
Path = tuple[str | int, ...]


class Input(msgspec.Struct, frozen=True, array_like=True):
    """One value of the arguments, and where it comes from. The path begins with a parameter."""

    path: Path
    source: Source


class Given(msgspec.Struct, frozen=True):
    """What an upstream has come to."""

    state: JobState
    result: str | None
    finished_at: datetime | None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[Input, ...])
_number = msgspec.json.Decoder(int)
_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])
NULL = msgspec.Raw(b"null")


def encode_inputs(inputs: Sequence[Input]) -> str | None:
    return _encoder.encode(inputs).decode() if inputs else None


def decode_inputs(text: str | None) -> tuple[Input, ...]:
    return () if text is None else _decoder.decode(text)


_TAIL = (1 << 36) - 1
_STRIDE = 0x9E3779B97  # odd: no two elements have the same tail


def element_ids(map_job: JobId, indexes: range) -> list[JobId]:
    """The ids of the jobs for these elements of a map. Elements follow each other in the order of
    ids, so that those which are written together lie together. The tail is that of the map, moved
    on: all its digits vary, which scripts on Valkey need (`store/valkey/spread.py`), and elements
    of different maps are as different as the maps. The variant differs from the map's own."""
    variant = "89ab"[(int(map_job[19], 16) + 1) % 4]
    head, first, end = map_job[:14], int(map_job[24:33], 16), map_job[-3:]
    ids = [
        f"{head}7{index >> 12:03x}-{variant}{index & 0xFFF:03x}"
        f"-{first + index * _STRIDE & _TAIL:09x}{end}"
        for index in indexes
    ]
    return cast("list[JobId]", ids)


def added_id(by: JobId, name: str) -> JobId:
    """The id of a node that a running node adds to its flow under this name."""
    return _id_made_by(by, f"node {name}")


def _id_made_by(job: JobId, what: str) -> JobId:
    """It is made from the id of the job that adds the node, so that a second attempt of that job
    makes the same ids. The time and the partition are those of the job."""
    mixed = hashlib.blake2b(f"{job} {what}".encode(), digest_size=8).hexdigest()
    variant = "89ab"[int(mixed[3], 16) % 4]
    tail = f"{mixed[7:]}{job[-3:]}"
    return JobId(f"{job[:14]}7{mixed[:3]}-{variant}{mixed[4:7]}-{tail}")


def renamed(one: Input, ids: Mapping[JobId, JobId]) -> Input:
    """The same input with other ids of nodes."""
    match one.source:
        case Result(job):
            return Input(one.path, Result(ids.get(job, job)))
        case Mapped(job):
            return Input(one.path, Mapped(ids.get(job, job)))
        case Winner(jobs):
            return Input(one.path, Winner(tuple(ids.get(job, job) for job in jobs)))
        case Each(jobs):
            return Input(one.path, Each(tuple(ids.get(job, job) for job in jobs)))


def needed(inputs: Sequence[Input]) -> set[JobId]:
    """The nodes whose results are needed first. A map then tells of more (`elements`)."""
    found: set[JobId] = set()
    for one in inputs:
        match one.source:
            case Result(job) | Mapped(job):
                found.add(job)
            case Winner(jobs) | Each(jobs):
                found.update(jobs)
    return found


def only_results(inputs: Sequence[Input]) -> list[JobId] | None:
    """The nodes that these inputs name, if each takes the result of one node."""
    sources = [one.source for one in inputs]
    found = [source.job for source in sources if isinstance(source, Result)]
    return found if len(found) == len(sources) else None


def elements(inputs: Sequence[Input], given: Mapping[JobId, Given]) -> set[JobId]:
    """The elements of the maps among these inputs, once the maps themselves are known."""
    return {
        job
        for one in inputs
        if isinstance(one.source, Mapped)
        for job in _elements_of(one.source.job, given)
    }


def splice(arguments: str, inputs: Sequence[Input], given: Mapping[JobId, Given]) -> str:
    """The arguments of a node with all results in their places."""
    values: dict[str, Any] = dict(_arguments.decode(arguments))
    for one in inputs:
        _put(values, one.path, _value(one.source, given))
    return _encoder.encode(values).decode()


def _put(values: Any, path: Path, value: msgspec.Raw) -> None:
    *way, last = path
    for step in way:
        if isinstance(values[step], msgspec.Raw):
            values[step] = msgspec.json.decode(values[step])
        values = values[step]
    values[last] = value


def _value(source: Source, given: Mapping[JobId, Given]) -> msgspec.Raw:
    match source:
        case Result(job):
            return _result(given.get(job))
        case Winner(jobs):
            return _result(_first(jobs, given))
        case Each(jobs):
            return _list(jobs, given)
        case Mapped(job):
            return _list(_elements_of(job, given), given)


def _first(jobs: Sequence[JobId], given: Mapping[JobId, Given]) -> Given | None:
    won = [one for one in map(given.get, jobs) if one and one.state is JobState.SUCCEEDED]
    return min(won, key=lambda one: str(one.finished_at), default=None)


def _elements_of(job: JobId, given: Mapping[JobId, Given]) -> list[JobId]:
    made = given.get(job)
    count = 0 if made is None or made.result is None else _number.decode(made.result)
    return element_ids(job, range(count))


def _list(jobs: Sequence[JobId], given: Mapping[JobId, Given]) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode([_result(given.get(job)) for job in jobs]))


def _result(given: Given | None) -> msgspec.Raw:
    if given is None or given.state is not JobState.SUCCEEDED or given.result is None:
        return NULL
    return msgspec.Raw(given.result.encode())
