"""Resources: made before a handler needs them, and left in reverse.

A function that makes a resource may be a plain function, a coroutine function, a generator or an
async generator with one `yield`, or a function that returns a context manager. All of them run on
the worker's event loop. What a generator yields or a context manager gives is the resource; the
rest of it runs when the resource is left. The parameters of such a function may be resources in
turn, and those of a `Depends` also the `Context` of the attempt.

Only a program with resources imports this module.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from inspect import Parameter
from typing import Any

from holdfast.context import Context
from holdfast.errors import BadOption, BadTask
from holdfast.resources import Makes, Resource

Overrides = Mapping[Makes, Any]
"""What a test gives in place of resources, by the functions that make them."""

Entering = Callable[[str], AbstractContextManager[None]]
"""Told what is being entered, for as long as that takes."""


class Recipe:
    """How a resource is made: its function, and what that function takes."""

    def __init__(self, task: str, resource: Resource) -> None:
        self.shown, self.function, self.shared = str(resource), resource.function, resource.shared
        self.make = _enterable(resource.function)
        self.takes: dict[str, Recipe] = {}
        self.context: str | None = None
        for parameter in _parameters(task, resource):
            self._take(task, parameter)

    def _take(self, task: str, parameter: Parameter) -> None:
        if isinstance(parameter.default, Resource):
            taken = self.takes[parameter.name] = Recipe(task, parameter.default)
            if self.shared and not taken.shared:
                problem = f"{self.shown} is made once a worker and cannot take {taken.shown}"
                raise BadTask(task, f"{problem}, which is made once an attempt")
        elif parameter.annotation is Context:
            self.context = parameter.name
            if self.shared:
                raise BadTask(task, f"{self.shown} is made once a worker: there is no Context yet")
        elif parameter.default is Parameter.empty and parameter.kind not in _VARIADIC:
            problem = f"{self.shown}: nobody fills in its parameter {parameter.name!r}"
            raise BadTask(task, f"{problem}: give it a resource or another default")


_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def recipes(task: str, resources: Mapping[str, Resource]) -> dict[str, Recipe]:
    """The recipe of each parameter that is a resource. Refuses one that can never be made."""
    return {name: Recipe(task, resource) for name, resource in resources.items()}


class Resources:
    """The resources of one worker, or of one test. `overrides` replaces what functions make."""

    def __init__(self, overrides: Overrides | None = None) -> None:
        self._given = dict(overrides or {})
        self._shared: dict[Makes, Any] = {}

    def require_known(self, all_recipes: Iterable[Recipe]) -> None:
        """Refuse an override of a function that no task names: it would replace nothing."""
        known = {recipe.function for one in all_recipes for recipe in _with_taken(one)}
        for function in self._given:
            if function not in known:
                raise BadOption("resources", "functions that tasks name as resources", function)

    async def enter(
        self, all_recipes: Iterable[Recipe], stack: AsyncExitStack, entering: Entering
    ) -> None:
        """Make what is made once a worker, and what that takes before it. `stack` leaves it."""
        for recipe in all_recipes:
            if recipe.function in self._given or (
                recipe.shared and recipe.function in self._shared
            ):
                continue
            await self.enter(recipe.takes.values(), stack, entering)
            if recipe.shared:
                arguments = {name: self._fixed(taken) for name, taken in recipe.takes.items()}
                with entering(recipe.shown):
                    self._shared[recipe.function] = await _entered(recipe.make(**arguments), stack)

    def split(self, own: Mapping[str, Recipe]) -> tuple[dict[str, Any], dict[str, Recipe]]:
        """The values that are the same for every attempt, and what each attempt makes anew."""
        fixed = {name: recipe for name, recipe in own.items() if self._is_fixed(recipe)}
        rest = {name: recipe for name, recipe in own.items() if name not in fixed}
        return {name: self._fixed(recipe) for name, recipe in fixed.items()}, rest

    async def made(
        self, own: Mapping[str, Recipe], context: Context, stack: AsyncExitStack
    ) -> dict[str, Any]:
        """Make these resources for one attempt. `stack` leaves them."""
        known: dict[Makes, Any] = {}
        return {name: await self._made(one, context, stack, known) for name, one in own.items()}

    async def _made(
        self, recipe: Recipe, context: Context, stack: AsyncExitStack, known: dict[Makes, Any]
    ) -> Any:
        if self._is_fixed(recipe):
            return self._fixed(recipe)
        if recipe.function not in known:
            arguments: dict[str, Any] = {} if recipe.context is None else {recipe.context: context}
            for name, taken in recipe.takes.items():
                arguments[name] = await self._made(taken, context, stack, known)
            known[recipe.function] = await _entered(recipe.make(**arguments), stack)
        return known[recipe.function]

    def _is_fixed(self, recipe: Recipe) -> bool:
        return recipe.shared or recipe.function in self._given

    def _fixed(self, recipe: Recipe) -> Any:
        given = self._given if recipe.function in self._given else self._shared
        return given[recipe.function]


def _with_taken(recipe: Recipe) -> Iterator[Recipe]:
    yield recipe
    for taken in recipe.takes.values():
        yield from _with_taken(taken)


def _enterable(function: Makes) -> Makes:
    """The same function, or for a generator what `@contextmanager` would make of it."""
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(function)
    if inspect.isgeneratorfunction(function):
        return contextmanager(function)
    return function


def _parameters(task: str, resource: Resource) -> list[Parameter]:
    """The parameters of a function that makes a resource, with annotations as types where they can
    be read: only that of a `Context` matters."""
    function = resource.function
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise BadTask(task, f"{resource}: its signature cannot be read: {error}") from error
    own = getattr(inspect.unwrap(function), "__globals__", {})
    hints: dict[str, Any] = {}
    try:
        hints = typing.get_type_hints(function, {"Context": Context, **own})
    except Exception:  # noqa: BLE001 - a name that only the type checker knows
        hints = {p.name: Context for p in found if p.annotation in ("Context", Context)}
    return [p.replace(annotation=hints.get(p.name, p.annotation)) for p in found]


async def _entered(made: Any, stack: AsyncExitStack) -> Any:
    """What the function made, entered if it can be. An object that can be entered and awaited, as a
    pool of asyncpg, is entered."""
    if isinstance(made, AbstractAsyncContextManager):
        return await stack.enter_async_context(made)
    if isinstance(made, AbstractContextManager):
        return stack.enter_context(made)
    return await made if inspect.isawaitable(made) else made
