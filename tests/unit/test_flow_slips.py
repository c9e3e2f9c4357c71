"""Slips that a builder of flows refuses at the line that makes them, before anything is started."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from holdfast.app import App
from holdfast.errors import BadArguments, BadFlow
from holdfast.task import Task


class Point(msgspec.Struct):
    x: int


@pytest.fixture
def app() -> App:
    return App("sqlite://")


@pytest.fixture
def square(app: App) -> Task[..., Any]:
    @app.task()
    async def square(number: int, power: int = 2) -> Any:
        return number**power

    return square


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (["a"], "element 0 of the map: parameter 'number': expected int, got str"),
        ([1, 2, None], "element 2 of the map: parameter 'number': expected int, got null"),
        ([1, {3}], "element 1 of the map: parameter 'number': expected int, got array"),
        ([object()], "element 0 of the map: parameter 'number': object has no JSON form"),
        ("abc", "a map takes a list, got str"),
        (b"abc", "a map takes a list, got bytes"),
        ({"a": 1}, "a map takes a list, got dict"),
        (5, "a map takes a list, got int"),
        (None, "a map takes a list, got NoneType"),
    ],
)
def test_a_list_whose_elements_do_not_fit_is_refused_where_it_is_mapped(
    app: App, square: Task[..., Any], items: Any, problem: str
) -> None:
    with pytest.raises(BadArguments) as refused:
        app.flow("slip").map(square, items)
    assert refused.value.problem.startswith(problem)


def test_elements_that_would_arrive_changed_are_refused(app: App) -> None:
    @app.task()
    async def keep(value: Any) -> None: ...

    with pytest.raises(BadArguments, match=r"element 1 of the map: .* NaN"):
        app.flow("slip").map(keep, [1.0, float("nan")])
    with pytest.raises(BadArguments, match=r"element 0 of the map: .* date would arrive as str"):
        app.flow("slip").map(keep, [date(2026, 1, 1)])


def test_an_element_that_is_the_output_of_a_node_is_refused(
    app: App, square: Task[..., Any]
) -> None:
    flow = app.flow("slip")
    one = flow.add(square, 1).named("one")
    with pytest.raises(BadArguments, match="<output of one> is not known yet: an element"):
        flow.map(square, [2, one.output])


async def test_what_fits_is_a_list_for_a_map(app: App) -> None:
    """Also a generator, which can be read once, and elements that are no plain JSON."""
    got: list[Any] = []

    @app.task()
    async def keep(value: Point | date | int, *, twice: bool = False) -> None:
        got.append(value)

    async with app, app.worker():
        for items in ((n for n in (3, 4)), (5,), [Point(6)], [date(2026, 1, 7)], [], range(8, 9)):
            flow = app.flow("fits")
            flow.map(keep, items, twice=True)
            await (await flow.start()).wait(20)
    assert sorted(one for one in got if one in (3, 4)) == [3, 4]
    assert [one for one in got if one not in (3, 4)] == [5, Point(6), date(2026, 1, 7), 8]


def test_a_node_without_a_value_for_a_parameter_is_refused(app: App, square: Any) -> None:
    async def adds(left: int, right: int) -> int:
        return left + right

    both: Any = app.task()(adds)
    flow = app.flow("slip")
    one = flow.add(square, 1)
    with pytest.raises(BadArguments, match="no value for 'right'"):
        flow.add(both, one.output)
    with pytest.raises(BadArguments, match="no value for 'right'"):
        flow.map(both, one.output)
    with pytest.raises(BadArguments, match="no value for 'right'"):
        flow.map(both, [1])
    flow.map(both, one.output, right=2)
    flow.add(both, one.output, one.output)


def test_a_map_has_outputs_and_no_output(app: App, square: Task[..., Any]) -> None:
    flow = app.flow("slip")
    squares = flow.map(square, [1, 2]).named("squares")
    with pytest.raises(BadFlow, match="'squares' is a map, which has a result for each element: "):
        flow.add(square, squares.output)
    with pytest.raises(BadFlow, match=r"pass its results, <node 'squares'>\.outputs"):
        flow.add(square, squares)
    flow.add(square, squares.outputs)


def test_a_task_whose_parameters_are_a_list_maps_nothing(app: App) -> None:
    @app.task()
    async def total(*numbers: int) -> int:
        return sum(numbers)

    with pytest.raises(BadFlow, match="needs a task of this program with a parameter"):
        app.flow("slip").map(total, [1])
