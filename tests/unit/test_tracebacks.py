"""A traceback reads as the standard library writes it, also when the same place fails again."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from holdfast.handlers.tracebacks import format_traceback


def fails() -> None:
    raise ConnectionError("no route")


def fails_in_an_expression() -> None:
    print({"a": 1}["a"] + {"b": 2}["c"])


def fails_across_lines() -> None:
    int(
        "not a number",
    )


def fails_because_of_another() -> None:
    try:
        fails()
    except ConnectionError as error:
        raise RuntimeError("gave up") from error


def fails_while_handling() -> None:
    try:
        fails()
    except ConnectionError:
        fails_in_an_expression()


def fails_hiding_another() -> None:
    try:
        fails()
    except ConnectionError:
        raise RuntimeError("gave up") from None


def fails_in_a_group() -> None:
    raise ExceptionGroup("both", [ValueError("one"), ValueError("two")])


def fails_deeply(depth: int = 80) -> None:
    if not depth:
        fails()
    fails_deeply(depth - 1)


def fails_with_a_note() -> None:
    error = ValueError("wrong")
    error.add_note("it was a Monday")
    raise error


class Shop:
    class Closed(Exception):
        pass

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")


def fails_with_a_class_of_its_own() -> None:
    raise Shop.Closed("until Monday\nor so")


def fails_without_words() -> None:
    raise Shop.Closed


def fails_to_say_why() -> None:
    raise Shop.Mute


def fails_by_a_slip() -> None:
    Shop.Close()  # type: ignore[attr-defined]


def fails_to_import() -> None:
    from traceback import walk_tbs  # type: ignore[attr-defined]  # noqa: F401


def fails_to_parse() -> None:
    compile("a = = b", "<given>", "exec")


def fails_in_code_without_a_file() -> None:
    exec(compile("1 / 0", "<made up>", "exec"))


@pytest.mark.parametrize(
    "handler",
    [
        fails,
        fails_in_an_expression,
        fails_across_lines,
        fails_because_of_another,
        fails_while_handling,
        fails_hiding_another,
        fails_in_a_group,
        fails_deeply,
        fails_with_a_note,
        fails_with_a_class_of_its_own,
        fails_without_words,
        fails_to_say_why,
        fails_by_a_slip,
        fails_to_import,
        fails_to_parse,
        fails_in_code_without_a_file,
    ],
)
def test_a_traceback_says_what_the_standard_library_says(handler: Callable[[], None]) -> None:
    for _ in range(2):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each handler has its own
            handler()
        error = caught.value
        assert format_traceback(error) == "".join(traceback.format_exception(error))


def test_an_exception_that_was_never_raised_has_only_its_words() -> None:
    assert format_traceback(ValueError("wrong")) == "ValueError: wrong\n"
