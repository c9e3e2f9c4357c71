"""Results as arguments: which results a node takes, and how they come into its arguments.

The arguments of a node are written without these values. When the node is claimed, the worker reads
the results of the upstreams and puts each in its place. They stay JSON text on the way: no value
passes a float or a Python type before the signature of the node's own function reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.flow.elements import element_ids
from holdfast.job.ids import JobId


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The result of one node."""

    job: JobId


class Winner(msgspec.Struct, frozen=True, tag="winner", omit_defaults=True):
    """The result of the node that succeeded first. `maps`: the jobs that stand for the elements of
    a map, each with the node that made them."""

    jobs: tuple[JobId, ...]
    maps: dict[JobId, JobId] = {}


class Each(msgspec.Struct, frozen=True, tag="each", omit_defaults=True):
    """The results of several nodes as a list; null for one that did not succeed. `maps` as a
    `Winner` has them."""

    jobs: tuple[JobId, ...]
    maps: dict[JobId, JobId] = {}


class Mapped(msgspec.Struct, frozen=True, tag="mapped"):
    """The results of all elements of a map, in their order. `job` is the node that made them, whose
    result is a `MapResult`."""

    job: JobId


MapResult = int | tuple[int, int]
"""What a map comes to: how many elements it has. If elements of it have been removed before, it
says also how often."""

Source = Result | Winner | Each | Mapped
Path = tuple[str | int, ...]


class Input(msgspec.Struct, frozen=True, array_like=True):
    """One value of the arguments, and where it comes from. The path begins with a parameter."""

    path: Path
    source: Source


class Given(msgspec.Struct):
    """What the upstreams of nodes have come to: the results of those that succeeded, the elements
    of maps, and when the nodes of a race ended."""

    results: dict[JobId, str] = {}
    elements: dict[JobId, list[JobId]] = {}
    ended_at: dict[JobId, datetime] = {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[Input, ...])
_map_result: msgspec.json.Decoder[MapResult] = msgspec.json.Decoder(MapResult)
_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])
NULL_TEXT = "null"
NULL = msgspec.Raw(b"null")


def encode_inputs(inputs: Sequence[Input]) -> str | None:
    return _encoder.encode(inputs).decode() if inputs else None


def decode_inputs(text: str | None) -> tuple[Input, ...]:
    return () if text is None else _decoder.decode(text)


def added_id(by: JobId, name: str, anew: int = 0) -> JobId:
    """The id of a node that a running node adds to its flow under this name. `anew`: how often what
    it had added was removed."""
    return _id_made_by(by, f"node {anew} {name}")


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
        case Winner(jobs, maps):
            return Input(one.path, Winner(*_renamed(jobs, maps, ids)))
        case Each(jobs, maps):
            return Input(one.path, Each(*_renamed(jobs, maps, ids)))


def _renamed(
    jobs: Sequence[JobId], maps: Mapping[JobId, JobId], ids: Mapping[JobId, JobId]
) -> tuple[tuple[JobId, ...], dict[JobId, JobId]]:
    others = {ids.get(job, job): ids.get(of, of) for job, of in maps.items()}
    return tuple(ids.get(job, job) for job in jobs), others


def needed(inputs: Sequence[Input]) -> set[JobId]:
    """The nodes whose results are needed first. A map then tells of more: `elements`."""
    found: set[JobId] = set()
    for one in inputs:
        match one.source:
            case Result(job) | Mapped(job):
                found.add(job)
            case Winner(jobs, maps) | Each(jobs, maps):
                found.update(jobs, maps.values())
    return found


def only_results(inputs: Sequence[Input]) -> list[JobId] | None:
    """The nodes that these inputs name, if each takes the result of one node."""
    sources = [one.source for one in inputs]
    found = [source.job for source in sources if isinstance(source, Result)]
    return found if len(found) == len(sources) else None


def elements(inputs: Sequence[Input], results: Mapping[JobId, str]) -> dict[JobId, list[JobId]]:
    """The elements of each map among these inputs, once the results of the maps are known."""
    maps: set[JobId] = set()
    for one in inputs:
        match one.source:
            case Mapped(job):
                maps.add(job)
            case Winner(_, known) | Each(_, known):
                maps.update(known.values())
    return {job: elements_of(job, results.get(job, "0")) for job in maps}


def map_result(count: int, anew: int) -> MapResult:
    return (count, anew) if anew else count


def elements_of(job: JobId, result: str) -> list[JobId]:
    """The elements of a map, by what the map has come to."""
    told = _map_result.decode(result)
    count, anew = (told, 0) if isinstance(told, int) else told
    return element_ids(job, range(count), anew)


def splice(arguments: str, inputs: Sequence[Input], given: Given) -> str:
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


def _value(source: Source, given: Given) -> msgspec.Raw:
    match source:
        case Result(job):
            return _raw(given.results.get(job, NULL_TEXT))
        case Winner(jobs, maps):
            won = [job for job in jobs if job in given.results]
            first = min(won, key=lambda job: str(given.ended_at.get(job)), default=None)
            return NULL if first is None else _raw(_result(first, maps, given))
        case Each(jobs, maps):
            return _raw(f"[{','.join([_result(job, maps, given) for job in jobs])}]")
        case Mapped(job):
            return _raw(_list(given.elements.get(job, ()), given))


def _result(job: JobId, maps: Mapping[JobId, JobId], given: Given) -> str:
    """The result of a node, or those of the elements for which it stands."""
    if job in maps and job in given.results:
        return _list(given.elements[maps[job]], given)
    return given.results.get(job, NULL_TEXT)


def _list(jobs: Sequence[JobId], given: Given) -> str:
    result = given.results.get
    return f"[{','.join([result(job, NULL_TEXT) for job in jobs])}]"


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
