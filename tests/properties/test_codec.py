"""For any value: it arrives as it was, or its enqueue is refused; never anything between."""

import enum
import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pydantic
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.codec.signature import Signature
from holdfast.errors import BadArguments


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Leaf:
    text: str
    amount: Decimal | None


@dataclass
class Tree:
    leaves: list[Leaf]
    at: datetime
    children: "dict[str, Tree]"


class Model(pydantic.BaseModel):
    n: int
    at: datetime | None
    tags: set[str]


def record(
    number: int,
    ratio: float,
    text: str,
    raw: bytes,
    day: date | None,
    clock: time,
    span: timedelta,
    ids: frozenset[UUID],
    amounts: dict[int, Decimal],
    colours: dict[Colour, tuple[int, str]],
    tree: Tree,
    model: list[Model],
    path: PurePosixPath,
    *rest: bool,
    **more: int | None,
) -> None: ...


def at(moments: list[datetime]) -> None: ...


def anything(value: Any) -> None: ...


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**80), 2**80)
# Before standard time, offsets have seconds, which RFC 3339 cannot say: those are refused.
MODERN = datetime(1980, 1, 1)  # noqa: DTZ001 - Hypothesis adds the zone
DECIMALS = st.decimals(allow_nan=False)
LEAVES = st.builds(Leaf, TEXT, st.none() | DECIMALS)
TREES: st.SearchStrategy[Tree] = st.deferred(
    lambda: st.builds(
        Tree,
        st.lists(LEAVES, max_size=3),
        st.datetimes(),
        st.dictionaries(TEXT, TREES, max_size=1),
    )
)
MODELS = st.builds(Model, n=INTEGERS, at=st.none() | st.datetimes(), tags=st.sets(TEXT))
ARGUMENTS = st.tuples(
    INTEGERS,
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.binary(),
    st.none() | st.dates(),
    st.times(),
    st.timedeltas(),
    st.frozensets(st.uuids()),
    st.dictionaries(st.integers(-(2**63), 2**63), DECIMALS),
    st.dictionaries(st.sampled_from(Colour), st.tuples(INTEGERS, TEXT)),
    TREES,
    st.lists(MODELS, max_size=2),
    st.lists(TEXT.filter(lambda part: "\x00" not in part)).map(lambda p: PurePosixPath(*p)),
)
JSON_AND_MORE = st.recursive(
    st.none()
    | st.booleans()
    | INTEGERS
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.datetimes(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers())
    ),
    max_leaves=10,
)


@given(ARGUMENTS, st.lists(st.booleans()), st.dictionaries(st.just("x") | st.just("y"), INTEGERS))
def test_arguments_of_every_type_arrive_as_they_were(
    arguments: tuple[Any, ...], rest: list[bool], more: dict[str, int]
) -> None:
    signature = Signature.of(record)
    args, kwargs = signature.call_arguments(signature.encode((*arguments, *rest), more))

    assert args == (*arguments, *rest)
    assert kwargs == more


@given(st.lists(st.datetimes() | st.datetimes(MODERN, timezones=st.timezones())))
def test_datetimes_arrive_with_their_offset_or_without_one(moments: list[datetime]) -> None:
    signature = Signature.of(at)
    args, _ = signature.call_arguments(signature.encode((moments,), {}))

    # Not by ==, which is never true of the hour that a clock change repeats.
    assert [m.isoformat() for m in args[0]] == [m.isoformat() for m in moments]


@given(JSON_AND_MORE)
def test_a_value_of_any_type_arrives_in_shape_or_is_refused(value: Any) -> None:
    signature = Signature.of(anything)
    if is_json(value):
        text = signature.encode((value,), {})
        assert signature.call_arguments(text)[0] == (in_shape(value),)
    else:
        with pytest.raises(BadArguments, match="parameter 'value'"):
            signature.encode((value,), {})


@given(st.text() | st.binary())
def test_stored_text_that_is_not_an_object_is_refused_and_never_a_crash(text: str | bytes) -> None:
    with pytest.raises(BadArguments, match="task 'anything'"):
        Signature.of(anything).call_arguments(text)


@given(JSON_AND_MORE)
def test_a_json_result_arrives_in_shape(value: Any) -> None:
    assume(is_json(value))
    signature = Signature.of(anything, keep_result=False)

    assert signature.decode_result(signature.encode_result(value)) == in_shape(value)


def is_json(value: Any) -> bool:
    match value:
        case None | bool() | int():
            return True
        case str():
            return not any("\ud800" <= c <= "\udfff" for c in value)
        case float():
            return math.isfinite(value)
        case dict():
            return all(isinstance(k, str) and is_json(k) and is_json(v) for k, v in value.items())
        case list() | tuple() | frozenset():
            return all(map(is_json, value))
        case _:
            return False


def in_shape(value: Any) -> Any:
    match value:
        case dict():
            return {key: in_shape(inner) for key, inner in value.items()}
        case list() | tuple() | frozenset():
            return [in_shape(inner) for inner in value]
        case _:
            return value
