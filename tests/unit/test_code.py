"""Workers of one release have the same code, and those of another release have another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.handlers.code import code_of
from holdfast.handlers.registry import Handler, Registry


class Address(msgspec.Struct):
    street: str


class Longer(msgspec.Struct):
    street: str
    country: str


async def send(to: str, times: int = 1) -> None: ...
async def again(to: str, times: int = 5) -> None: ...
async def more(to: str, times: int = 1, cc: str = "") -> None: ...
async def needs(to: str, times: int) -> None: ...
async def ship(to: Address) -> None: ...
async def ship_far(to: Longer) -> None: ...
async def other(to: str, times: int = 1) -> None:
    print(to)


def registry(**functions: Callable[..., Any]) -> Registry:
    known = Registry()
    for name, function in functions.items():
        known.add(Handler.of(name, function))
    return known


def test_neither_the_order_of_the_tasks_nor_a_default_counts() -> None:
    one = code_of(registry(a=send, b=ship))
    assert one == code_of(registry(b=ship, a=send)) == code_of(registry(a=again, b=ship))


@pytest.mark.parametrize(
    ("old", "new"), [(send, more), (send, needs), (ship, ship_far), (send, other)]
)
def test_another_signature_or_body_is_other_code(
    old: Callable[..., Any], new: Callable[..., Any]
) -> None:
    assert code_of(registry(a=old)) != code_of(registry(a=new))


def test_another_task_is_other_code() -> None:
    assert code_of(registry(a=send)) != code_of(registry(a=send, b=send))
    assert code_of(registry(a=send)) != code_of(registry(b=send))


def test_what_has_no_schema_is_told_by_its_annotation(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.codec.signature import Signature

    with_schema = code_of(registry(a=send))
    monkeypatch.setattr(Signature, "schema", lambda self: None)
    assert code_of(registry(a=send)) == code_of(registry(a=again)) != with_schema
    assert code_of(registry(a=send)) != code_of(registry(a=needs))
