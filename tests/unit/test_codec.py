"""Arguments and results as JSON, typed by the function's signature."""

import enum
import functools
import ipaddress
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar, Unpack
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from holdfast.codec.signature import REMEMBERED, Signature
from holdfast.errors import BadArguments, BadResult, BadTask

T = TypeVar("T")


class Context:
    """Stands for `holdfast.context.Context`, which the codec never imports."""


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Odd(enum.Enum):
    PAIR = (1, 2)
    HALF = 0.5
    NAME = "name"


@dataclass(frozen=True)
class Address:
    street: str
    tags: tuple[str, ...] = ()


@dataclass
class Person:
    name: str
    home: Address
    born: date | None = None
    friends: "list[Person]" = field(default_factory=list)


@dataclass
class Employee(Person):
    salary: int = 0


@dataclass
class Box(Generic[T]):
    content: T


class Point(msgspec.Struct):
    x: int
    y: int


class Identity(msgspec.Struct, eq=False):
    names: set[str]


class Movie(TypedDict):
    title: str
    year: int


class Pair(NamedTuple):
    left: int
    right: str


class Email(str):
    pass


class User(pydantic.BaseModel):
    name: str = pydantic.Field(alias="userName")
    joined: datetime
    score: float | None = None


class Account(pydantic.BaseModel):
    password: pydantic.SecretStr


@pydantic.dataclasses.dataclass
class Size:
    width: int = pydantic.Field(gt=0)


@dataclass
class Team:
    lead: User


UserId = NewType("UserId", int)

ADA = User(userName="Ada", joined=datetime(2020, 1, 1, tzinfo=UTC))


def taking(annotation: Any) -> Signature:
    def handler(value: Any) -> None: ...

    handler.__annotations__["value"] = annotation
    return Signature.of(handler, task="handler", context_type=Context)


def returning(annotation: Any) -> Signature:
    def handler() -> Any: ...

    handler.__annotations__["return"] = annotation
    return Signature.of(handler, task="handler")


def there_and_back(annotation: Any, value: Any) -> Any:
    signature = taking(annotation)
    args, kwargs = signature.call_arguments(signature.encode((value,), {}))
    assert kwargs == {}
    return args[0]


def called(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    signature = Signature.of(fn, context_type=Context)
    call_args, call_kwargs = signature.call_arguments(signature.encode(args, kwargs), "the context")
    return fn(*call_args, **call_kwargs)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, None),
        (bool, True),
        (int, 2**200),
        (int, -(2**63) - 1),
        (float, 1e-300),
        (str, "snow ☃ and \x00"),
        (bytes, b"\xff\x00"),
        (bytearray, bytearray(b"\xff")),
        (datetime, datetime(2024, 2, 29, 12, 30, 0, 5)),  # noqa: DTZ001 - naive is user data
        (datetime, datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
        (date, date(1, 1, 1)),
        (time, time(23, 59, 59, 999999)),
        (timedelta, timedelta(days=-3, microseconds=1)),
        (UUID, UUID(int=7)),
        (Decimal, Decimal("1.10")),
        (Decimal, Decimal("-0E+5")),
        (Colour, Colour.RED),
        (Level, Level.HIGH),
        (Odd, Odd.PAIR),
        (Odd | None, Odd.HALF),
        (Odd | None, None),
        (Person, Person("Ada", Address("x", ("a",)), date(1815, 12, 10), [])),
        (Person, Person("Ada", Address("x"), friends=[Person("Bob", Address("y"))])),
        (Box[datetime], Box(datetime(2024, 1, 1, tzinfo=UTC))),
        (Point, Point(1, 2)),
        (Movie, {"title": "M", "year": 1931}),
        (Pair, Pair(1, "b")),
        (tuple[int, str], (1, "b")),
        (set[UUID], {UUID(int=1), UUID(int=2)}),
        (frozenset[int], frozenset({1, 2})),
        (dict[int, str], {1: "a"}),
        (dict[Colour, int], {Colour.RED: 1}),
        (dict[UUID, int], {UUID(int=1): 1}),
        (dict[date, int], {date(2024, 1, 1): 1}),
        (int | None, None),
        (int | str, "1"),
        (int | UUID, UUID(int=7)),
        (Literal["a", 1], 1),
        (Annotated[int, msgspec.Meta(gt=3)], 4),
        (UserId, UserId(4)),
        (Email, Email("a@example.org")),
        (Path, Path("a/b")),
        (Path | None, Path("a/b")),
        (list[Path], [Path("a"), Path("b")]),
        (User, ADA),
        (User | None, None),
        (dict[str, list[User]], {"all": [ADA]}),
        (User | Size, Size(width=3)),
        (Size, Size(width=3)),
        (Team, Team(ADA)),
        (Any, {"a": [1, 2.5, None, True, "x"]}),
        (object, [1]),
    ],
)
def test_a_value_arrives_as_what_it_was(annotation: Any, value: Any) -> None:
    arrived = there_and_back(annotation, value)

    assert arrived == value
    assert type(arrived) is type(value)


def test_a_tuple_may_be_passed_for_a_sequence() -> None:
    assert there_and_back(Sequence[int], (1, 2)) == [1, 2]


def test_a_naive_datetime_stays_naive() -> None:
    arrived = there_and_back(datetime, datetime(2024, 1, 1))  # noqa: DTZ001 - the point

    assert arrived.tzinfo is None


def test_the_hour_that_a_clock_change_repeats_is_not_taken_for_lost() -> None:
    twice = datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))

    assert there_and_back(datetime, twice).isoformat() == "2024-10-27T02:30:00+01:00"


def test_a_decimal_nan_arrives() -> None:
    assert there_and_back(Decimal, Decimal("NaN")).is_nan()


def test_a_class_that_compares_by_identity_is_not_taken_for_lost() -> None:
    names = {f"name {n}" for n in range(200)}

    assert there_and_back(Identity, Identity(names)).names == names


# What is stored, and what the function is called with


def greet(name: str, greeting: str = "Hello", *, loud: bool = False) -> str:
    return f"{greeting} {name}{'!' if loud else ''}"


def test_defaults_that_were_not_passed_are_not_stored() -> None:
    assert Signature.of(greet).encode(("Ada",), {}) == '{"name":"Ada"}'


def test_a_default_that_was_passed_is_stored() -> None:
    text = Signature.of(greet).encode(("Ada", "Hello"), {"loud": False})

    assert text == '{"name":"Ada","greeting":"Hello","loud":false}'


def test_the_default_of_the_day_it_runs_is_used() -> None:
    def newer(name: str, greeting: str = "Hi", title: str = "Dr") -> None: ...

    args, _ = Signature.of(newer).call_arguments('{"name":"Ada"}')

    assert args == ("Ada", "Hi", "Dr")


def test_a_mutable_default_is_the_very_object_of_the_function() -> None:
    shared = [1]

    def handler(items: list[int] = shared) -> list[int]:
        return items

    assert called(handler) is shared


def test_keyword_only_parameters_are_passed_by_name() -> None:
    assert called(greet, "Ada", loud=True) == "Hello Ada!"


def test_positional_only_parameters_bind_as_in_python() -> None:
    def handler(a: int, /, b: int) -> tuple[int, int]:
        return a, b

    assert called(handler, 1, b=2) == (1, 2)
    with pytest.raises(BadArguments, match="positional"):
        Signature.of(handler).encode((), {"a": 1, "b": 2})


def test_variadic_parameters_are_typed_by_their_annotation() -> None:
    def handler(first: int, *rest: date, key: str = "k", **others: UUID) -> Any:
        return first, rest, key, others

    assert called(handler, 1, date(2024, 1, 1), x=UUID(int=1)) == (
        1,
        (date(2024, 1, 1),),
        "k",
        {"x": UUID(int=1)},
    )
    assert called(handler, 1) == (1, (), "k", {})
    with pytest.raises(BadArguments, match=r"parameter 'rest' at \[0\]"):
        Signature.of(handler).encode((1, 2), {})


def test_unpacked_keyword_arguments_are_typed_one_by_one() -> None:
    def handler(**movie: Unpack[Movie]) -> Any:
        return movie

    assert called(handler, title="M", year=1931) == {"title": "M", "year": 1931}
    with pytest.raises(BadArguments, match=r"parameter 'movie' at year: expected int, got str"):
        Signature.of(handler).encode((), {"title": "M", "year": "1931"})


def test_parameters_without_annotation_take_any_json() -> None:
    def handler(a, b=2):  # type: ignore[no-untyped-def]
        return a, b

    assert called(handler, {"x": [1]}) == ({"x": [1]}, 2)


def test_parameters_may_be_called_self_and_type() -> None:
    def handler(self: int, type: str, args: int) -> Any:  # noqa: A002 - the point
        return self, type, args

    assert called(handler, 1, type="t", args=3) == (1, "t", 3)


def test_bound_methods_partials_and_callable_objects_can_be_tasks() -> None:
    class Sender:
        def send(self, n: int) -> int:
            return n

        def __call__(self, n: int) -> int:
            return -n

    def add(a: int, b: int) -> int:
        return a + b

    assert called(Sender().send, 3) == 3
    assert called(Sender(), 3) == -3
    assert called(functools.partial(add, 10), 3) == 13


def first(ctx: Context, n: int) -> Any:
    return ctx, n


def middle(n: int, ctx: "Context", *more: int) -> Any:
    return ctx, n, *more


def optional(n: int, ctx: Context | None = None, m: int = 2) -> Any:
    return ctx, n, m


def by_name(n: int, *, ctx: "Context | None" = None) -> Any:
    return ctx, n


@pytest.mark.parametrize("handler", [first, middle, optional, by_name])
def test_the_context_is_passed_wherever_it_stands(handler: Callable[..., Any]) -> None:
    assert called(handler, 1)[:2] == ("the context", 1)
    assert Signature.of(handler, context_type=Context).encode((1,), {}) == '{"n":1}'


def test_the_parameters_after_the_context_keep_their_place() -> None:
    assert called(middle, 1, 2, 3) == ("the context", 1, 2, 3)
    assert called(optional, 1, m=5) == ("the context", 1, 5)


def test_the_context_is_known_even_if_imported_for_type_checking_only() -> None:
    def handler(n: int, ctx: Any) -> Any:
        return ctx, n

    handler.__annotations__["ctx"] = "Elsewhere"
    elsewhere = type("Elsewhere", (), {})

    assert Signature.of(handler, context_type=elsewhere).encode((1,), {}) == '{"n":1}'


def test_the_context_cannot_be_enqueued() -> None:
    def handler(ctx: Context, **others: int) -> None: ...

    with pytest.raises(BadArguments, match="'ctx' is filled in by the worker: leave it out"):
        Signature.of(handler, context_type=Context).encode((), {"ctx": 1})


# Errors at enqueue


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "missing a required argument: 'name'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        (("Ada",), {"nane": 1}, "got an unexpected keyword argument 'nane'"),
        (("Ada",), {"name": "Bob"}, "multiple values for argument 'name'"),
    ],
)
def test_a_call_that_does_not_bind_is_refused(
    args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadArguments) as refused:
        Signature.of(greet, task="mail.greet").encode(args, kwargs)

    assert str(refused.value).startswith(f"task 'mail.greet': {problem}: it takes (name: str")


def cyclic() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


LOCAL_MEAN_TIME = timezone(timedelta(minutes=53, seconds=28))


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (int, "5", "expected int, got str"),
        (int, b"5", "expected int, got bytes"),
        (int, 5.0, "expected int, got float"),
        (bool, 1, "expected bool, got int"),
        (str, 5, "expected str, got int"),
        (str, None, "expected str, got NoneType"),
        (str, b"abc", "bytes would arrive as str"),
        (str, UUID(int=1), "UUID would arrive as str"),
        (list[str], ["a", b"abc"], "bytes would arrive as str"),
        (datetime, "2024-01-01T00:00:00", "str would arrive as datetime"),
        (datetime, "soon", "invalid RFC3339"),
        (datetime, datetime(2024, 1, 1, tzinfo=LOCAL_MEAN_TIME), "datetime would arrive changed"),
        (Any, datetime(2024, 1, 1, tzinfo=UTC), "datetime would arrive as str"),
        (Any, [[], [b""]], "bytes would arrive as str"),
        (set[int], [1, 1], "2 elements would arrive as 1"),
        (Any, {1: 2}, "a key of type int would arrive as str"),
        (Any, {(1, 2): 3}, "tuple as a key has no JSON form"),
        (Any, threading.Lock(), "lock has no JSON form"),
        (Any, [lambda: 1], "function has no JSON form: pass plain data"),
        (Any, cyclic(), "it contains itself"),
        (float, float("nan"), "JSON has no NaN"),
        (float | None, float("inf"), "inf would arrive as None: JSON has no NaN"),
        (list[float], [1.0, float("-inf")], "JSON has no NaN"),
        (Any, {"a": [float("nan")]}, "nan would arrive as None: JSON has no NaN"),
        (str, "\ud800", "a lone surrogate at position 0"),
        (Any, {"k": ["x\udfff"]}, "a lone surrogate at position 1"),
        (Person, Person("A", Address(5)), "at home.street: expected str, got int"),  # type: ignore[arg-type]
        (Person, Employee("A", Address("x"), salary=5), "'salary' would not arrive"),
        (dict[int, int], {"x": 1}, "in a key: expected int, got str"),
        (tuple[int, int], (1,), "expected array of length 2"),
        (Literal["a"], "b", "invalid enum value 'b'"),
        (Annotated[int, msgspec.Meta(gt=3)], 3, "expected int >= 4"),
        (Colour, "blue", "invalid enum value 'blue'"),
        (Odd, "blue", "expected a value of Odd"),
        (User, 5, "input should be an object"),
        (User, {"userName": "Ada"}, "joined: Field required"),
        (list[Size], [{"width": -1}], "0.width: Input should be greater than 0"),
        (Team, {"lead": {"userName": 5}}, "at lead: userName: Input should be a valid string"),
        (User, ADA.model_copy(update={"score": float("nan")}), "JSON has no NaN"),
        (Account, Account(password=pydantic.SecretStr("x")), "SecretStr would arrive changed"),
        (Path, 5, "expected str, got int"),
    ],
)
def test_a_value_that_would_not_arrive_is_refused_at_enqueue(
    annotation: Any, value: Any, problem: str
) -> None:
    with pytest.raises(BadArguments) as refused:
        taking(annotation).encode((value,), {})

    message = str(refused.value)
    assert message.startswith("task 'handler': parameter 'value'")
    assert problem in message


def test_an_error_names_the_parameter_among_several() -> None:
    def handler(a: int, b: str, c: Any) -> None: ...

    with pytest.raises(BadArguments, match="task 'pay': parameter 'b': expected str, got int"):
        Signature.of(handler, task="pay").encode((1, 2, 3), {})
    with pytest.raises(BadArguments, match="parameter 'c': lock has no"):
        Signature.of(handler).encode((1, "2", threading.Lock()), {})


def test_an_error_raised_by_the_users_own_class_is_a_refusal() -> None:
    @dataclass
    class Strange:
        n: int

        def __post_init__(self) -> None:
            if self.n > 1:
                raise KeyError("n")

    strange = Strange(1)
    strange.n = 2

    with pytest.raises(BadArguments):
        taking(Strange).encode((strange,), {})


# Stored arguments that no longer fit


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"name":"Ada","colour":1,"age":2}', "it takes no 'age', 'colour'"),
        ("{}", "no value for 'name'"),
        ('{"name":5}', "parameter 'name': expected str, got int"),
        ("[1]", "not a JSON object: expected object, got array"),
        ("{", "not a JSON object: input data was truncated"),
        ("", "not a JSON object"),
    ],
)
def test_stored_arguments_that_no_longer_fit_are_refused(text: str, problem: str) -> None:
    signature = Signature.of(greet)

    for attempt in (signature.call_arguments, signature.check):
        with pytest.raises(BadArguments) as refused:
            attempt(text)
        assert problem in str(refused.value)


def test_stored_text_may_be_bytes() -> None:
    assert Signature.of(greet).call_arguments(b'{"name":"Ada"}')[0] == ("Ada", "Hello")


def test_arguments_that_come_as_json_may_be_checked() -> None:
    taking(datetime).check('{"value":"2024-01-01T00:00:00Z"}')


@pytest.mark.parametrize("text", ['{"name":1}', "{}", '{"name":"Ada","nme":"x"}'])
def test_arguments_refused_at_the_enqueue_are_told_what_the_function_takes(text: str) -> None:
    with pytest.raises(BadArguments, match=r"it takes \(name: str") as refused:
        Signature.of(greet).check(text)
    assert "changed since" not in str(refused.value)


# Errors at registration


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Person | Address, "Type unions may not contain more than one dataclass"),
        (datetime | str, "Type unions may not contain more than one str-like type"),
        (Path | str, "Type unions containing a custom type"),
        (threading.Event, "Event has no JSON form"),
        (list[dict[str, threading.Event]], "Event has no JSON form"),
        (Box[threading.Event], "Event has no JSON form"),
        (Callable[[], int], "Callable has no JSON form"),
        (complex, "complex has no JSON form"),
        (ipaddress.IPv4Address, "IPv4Address has no JSON form"),
        (list[Odd], "Enums must contain either all str or all int values"),
        (list[User | threading.Event], "Event"),
    ],
)
def test_an_annotation_json_cannot_serve_is_refused_at_registration(
    annotation: Any, problem: str
) -> None:
    for build, where in ((taking, "parameter 'value'"), (returning, "the result")):
        with pytest.raises(BadTask) as refused:
            build(annotation)
        assert str(refused.value).startswith(f"task 'handler': {where}: ")
        assert problem in str(refused.value)


def test_an_annotation_that_cannot_be_resolved_is_named() -> None:
    def handler(n: Any) -> None: ...

    handler.__annotations__["n"] = "Missing"

    with pytest.raises(BadTask, match="the annotation 'Missing' cannot be resolved"):
        Signature.of(handler)


def test_a_parameter_name_that_cannot_be_stored_is_refused() -> None:
    def handler(__hidden: int) -> None: ...

    with pytest.raises(BadTask, match="rename the parameter"):
        Signature.of(handler)


# Results


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, None),
        (int, 5),
        (datetime, datetime(2024, 1, 1, tzinfo=UTC)),
        (Person, Person("Ada", Address("x"))),
        (list[User], [ADA]),
        (Odd, Odd.PAIR),
        (Any, {"a": None}),
    ],
)
def test_a_result_arrives_as_what_it_was(annotation: Any, value: Any) -> None:
    signature = returning(annotation)

    assert signature.decode_result(signature.encode_result(value)) == value


def test_a_result_without_annotation_is_plain_json() -> None:
    def handler():  # type: ignore[no-untyped-def]
        ...

    signature = Signature.of(handler)

    assert signature.decode_result(signature.encode_result((1, "a"))) == [1, "a"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Any, threading.Lock()),
        (Any, float("nan")),
        (Any, [None, float("inf")]),
        (Any, "\ud800"),
        (User, ADA.model_copy(update={"score": float("nan")})),
    ],
)
def test_a_result_that_cannot_be_stored_is_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(BadResult, match="task 'handler': the result cannot be stored"):
        returning(annotation).encode_result(value)


def test_a_result_that_does_not_fit_its_annotation_is_told_to_who_reads_it() -> None:
    signature = returning(int)
    text = signature.encode_result("five")

    with pytest.raises(BadResult, match="expected int, got str"):
        signature.decode_result(text)


def test_a_result_that_is_not_kept_may_be_annotated_as_anything() -> None:
    def handler() -> threading.Event: ...  # type: ignore[empty-body]

    assert Signature.of(handler, keep_result=False).encode((), {}) == "{}"


def test_pydantic_is_never_imported_by_the_codec() -> None:
    program = (
        "import sys; from dataclasses import dataclass\n"
        "from holdfast.codec.signature import Signature\n"
        "@dataclass\nclass A: n: int\n"
        "def f(a: A) -> A: ...\n"
        "Signature.of(f).encode((A(1),), {})\n"
        "sys.exit('pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


SEVEN = UUID(int=7)


def by_number(other: list[float], key: int) -> None: ...
def by_text(other: list[float], *, key: str = "all") -> None: ...
def by_level(other: list[float], key: Level = Level.HIGH) -> None: ...
def by_number_of_level(other: list[float], key: int = Level.HIGH) -> None: ...
def by_either(other: list[float], key: str | int = 3) -> None: ...
def by_id(other: list[float], key: UUID = SEVEN) -> None: ...


@pytest.mark.parametrize(
    ("handler", "key"),
    [
        (by_number, 2**70),
        (by_text, "snow \u2603"),
        (by_level, Level.HIGH),
        (by_number_of_level, 4),
        (by_either, "one"),
        (by_id, UUID(int=8)),
    ],
)
def test_an_argument_that_is_read_alone_is_that_of_the_whole_call(
    handler: Callable[..., Any], key: Any
) -> None:
    signature = Signature.of(handler)
    calls = [signature.encode(([1.5],), {"key": key})]
    if handler is not by_number:
        calls.append(signature.encode(([1.5],), {}))
    for text in calls:
        alone, whole = signature.finder(["key"], dict)(text), signature.completed(text)
        assert (alone["key"], type(alone["key"])) == (whole["key"], type(whole["key"]))


def test_what_was_found_for_a_key_is_remembered_while_there_is_room() -> None:
    signature, asked = Signature.of(by_number), []

    def find(arguments: Mapping[str, Any]) -> int:
        asked.append(arguments["key"])
        return int(arguments["key"]) * 10

    finder = signature.finder(["key"], find)
    keys = [*range(REMEMBERED), *range(REMEMBERED), *range(REMEMBERED + 1), 0]
    assert [finder(signature.encode(([1.5],), {"key": key})) for key in keys] == [
        key * 10 for key in keys
    ]
    assert asked == [*range(REMEMBERED + 1), 0]


def test_a_key_that_is_refused_is_refused_each_time() -> None:
    def find(arguments: Mapping[str, Any]) -> int:
        raise ValueError(arguments["key"])

    finder = Signature.of(by_number).finder(["key"], find)
    for _ in range(2):
        with pytest.raises(ValueError, match="7"):
            finder('{"other":[],"key":7}')
