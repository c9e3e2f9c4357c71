"""Marks of secrets become paths, wherever a parameter or a model carries them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from holdfast import App, BadOption, BadTask, Secret
from holdfast.handlers.registry import Handler
from holdfast.job.redaction import Redactor

Password = Annotated[str, Secret]
UserId = NewType("UserId", Annotated[int, Secret])
T = TypeVar("T")


@dataclass
class Card:
    number: Password
    holder: str = ""


class Customer(msgspec.Struct, rename="camel"):
    home_phone: Annotated[str, msgspec.Meta(max_length=20), Secret()]
    cards: list[Card] = []
    by_name: dict[str, Card] = {}


class Account(pydantic.BaseModel):
    login: str
    hint: Annotated[str, Secret] = pydantic.Field(default="", alias="passwordHint")
    card: Card | None = None


class Address(TypedDict):
    street: Password
    town: str


class Point(NamedTuple):
    x: float
    y: Annotated[float, Secret]


class Node(msgspec.Struct):
    note: Password
    below: list[Node] = []


class Box(msgspec.Struct, Generic[T]):
    inside: T


@dataclass
class Plain:
    name: str
    more: list[int] = field(default_factory=list)


def paths_of(function: Callable[..., Any], *redact: str) -> set[str]:
    handler = Handler.of("pay", function, redact=redact)
    return {".".join(path) for path in handler.rules.paths}


def of_one(annotation: Any) -> set[str]:
    def pay(it: Any) -> None: ...

    pay.__annotations__["it"] = annotation
    return paths_of(pay)


@pytest.mark.parametrize(
    ("annotation", "paths"),
    [
        (str, set()),
        (Plain, set()),
        (Password, {"it"}),
        (Password | None, {"it"}),
        (list[Password], {"it"}),
        (dict[str, Password], {"it.*"}),
        (UserId, {"it"}),
        (Card, {"it.number"}),
        (list[Card], {"it.number"}),
        (tuple[int, Card | None], {"it.number"}),
        (dict[str, list[Card]], {"it.*.number"}),
        (Customer, {"it.homePhone", "it.cards.number", "it.byName.*.number"}),
        (Account, {"it.passwordHint", "it.card.number"}),
        (Address, {"it.street"}),
        (Point, {"it"}),
        (Node, {"it.note", "it.**.note"}),
        (Box[Card], {"it"}),
        (Box[Plain], set()),
    ],
    ids=lambda value: None if isinstance(value, set) else str(value),
)
def test_a_mark_becomes_the_path_to_what_it_marks(annotation: Any, paths: set[str]) -> None:
    assert of_one(annotation) == paths


def test_every_kind_of_parameter_may_be_marked() -> None:
    def pay(a: Password, /, *more: Password, key: Card, **rest: Password) -> None: ...

    assert paths_of(pay) == {"a", "more", "key.number", "rest.*"}


def test_a_result_may_be_marked() -> None:
    def login() -> Account: ...  # type: ignore[empty-body]

    def token() -> Password: ...  # type: ignore[empty-body]

    assert paths_of(login) == {"return.passwordHint", "return.card.number"}
    assert paths_of(token) == {"return"}


def test_what_a_task_declares_comes_beside_its_marks() -> None:
    def pay(card: Card, to: str) -> None: ...

    assert paths_of(pay, "to", "return.x.*") == {"to", "return.x.*", "card.number"}


def test_stored_arguments_are_hidden_at_the_marks() -> None:
    def pay(customer: Customer, tree: Node) -> None: ...

    handler = Handler.of("pay", pay)
    customer = Customer("12", [Card("411", "Ada")], {"x": Card("412", "Ada")})
    text = handler.signature.encode((customer, Node("n1", [Node("n2", [Node("n3")])])), {})
    told = Redactor(handler.rules, text).args()
    assert [secret for secret in ('"12"', "411", "412", "n1", "n2", "n3") if secret in told] == []
    assert "Ada" in told


def test_a_class_whose_annotations_cannot_be_read_is_hidden() -> None:
    @dataclass
    class Torn:
        a: int

    Torn.__annotations__ = {"a": "Nowhere", "b": int}
    from holdfast.codec.secrets import rules_of

    def pay(it: Any) -> None: ...

    parameters = Handler.of("pay", pay).signature.parameters.parameters
    marked = {"it": parameters["it"].replace(annotation=Torn)}
    assert rules_of((), marked, Any).paths == (("it", "a"),)


def test_a_path_that_names_no_parameter_is_refused() -> None:
    app = App("sqlite://")
    with pytest.raises(BadTask, match=r"redact='crad.number' must begin with one of card, return"):

        @app.task(name="pay", redact=("crad.number",))
        async def pay(card: dict[str, str]) -> None: ...

    with pytest.raises(BadTask, match=r"redact='card..n': write names with one '\.'"):

        @app.task(name="pay2", redact=("card..n",))
        async def pay2(card: dict[str, str]) -> None: ...


@pytest.mark.parametrize("wrong", ["card", 5, [5], [""]])
def test_paths_are_a_list_of_texts(wrong: Any) -> None:
    with pytest.raises(BadOption, match="redact"):
        App("sqlite://").task(redact=wrong)
