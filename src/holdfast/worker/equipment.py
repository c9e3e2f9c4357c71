"""What a worker enters before its first claim, and leaves after its last handler.

    lifespan → each Shared, and what it takes before it → [the worker] → the same in reverse

It is entered in the task that starts the worker, so context variables that it sets are there in
every handler. Nothing limits how long that takes: a model may load for minutes. But what takes long
is told.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.events import Events
from holdfast.handlers.registry import Handler, Registry
from holdfast.hooks import Hooks

if TYPE_CHECKING:
    from holdfast.handlers.resources import Overrides, Recipe, Resources

SLOW_SECONDS = 5.0
"""After so long a step of starting or leaving is told, and again each time as long has passed."""

LEAVING_SECONDS = 10.0
"""How long leaving may take when a signal ends the program."""

Lifespan = Callable[[Any], AbstractAsyncContextManager[object]]
"""Called with the app; entered around each of its workers."""


class Equips(Protocol):
    """What equipment needs of its app."""

    @property
    def registry(self) -> Registry: ...
    @property
    def hooks(self) -> Hooks: ...
    @property
    def lifespan(self) -> Lifespan | None: ...
    @property
    def events(self) -> Events: ...


@asynccontextmanager
async def equipped(
    app: Equips, overrides: Overrides | None = None, only: Registry | None = None
) -> AsyncIterator[Registry]:
    """Enter the lifespan and the shared resources of the app; gives its handlers, or `only` these,
    with everything that lies around them. An app that has nothing of this gives its handlers as
    they are."""
    registry = app.registry if only is None else only
    async with AsyncExitStack() as leaving, AsyncExitStack() as entered:
        if app.lifespan is not None:
            with _told_if_slow(app.events, "lifespan"):
                await entered.enter_async_context(app.lifespan(app))
        resources = await _entered(app, registry, overrides, entered)
        yield with_surroundings(app, registry, resources)
        leaving.enter_context(_told_if_slow(app.events, "leaving resources"))


async def _entered(
    app: Equips, registry: Registry, overrides: Overrides | None, stack: AsyncExitStack
) -> Resources | None:
    needy = [handler for handler in registry.handlers if handler.signature.resources]
    if not needy and not overrides:
        return None
    from holdfast.handlers.resources import Resources

    resources = Resources(overrides)
    if overrides:
        resources.require_known(_recipes(app.registry.handlers))
    await resources.enter(_recipes(needy), stack, partial(_told_if_slow, app.events))
    return resources


def _recipes(handlers: Iterable[Handler]) -> list[Recipe]:
    return [recipe for handler in handlers for recipe in handler.recipes().values()]


def with_surroundings(
    app: Equips, registry: Registry, resources: Resources | None = None
) -> Registry:
    """These handlers, each with the hooks of the app and with its resources, entered already."""
    if resources is None and not app.hooks.surround_handlers:
        return registry
    from holdfast.handlers.surroundings import surrounded

    return surrounded(registry, app.hooks, resources)


@contextmanager
def _told_if_slow(events: Events, step: str) -> Iterator[None]:
    telling = asyncio.create_task(_tell(events, step), name="holdfast-slow-step")
    try:
        yield
    finally:
        telling.cancel()


async def _tell(events: Events, step: str) -> None:
    for waited in itertools.count(1):
        await asyncio.sleep(SLOW_SECONDS)
        events.warning("worker.step_slow", step=step, seconds=waited * SLOW_SECONDS)
