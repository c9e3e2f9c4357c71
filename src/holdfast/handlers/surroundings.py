"""What lies around a function: the hooks of its app, and the resources of each attempt.

    hook around attempts → … → resources of the attempt → [thread → hook in threads → …] → function

A worker makes the surroundings of its handlers once, when it starts. A handler that needs none is
used as it was registered, and resources that are the same for every attempt become a `partial` of
its function, so that neither costs anything at each job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from holdfast.context import Context
from holdfast.errors import BadTask
from holdfast.handlers.registry import Handler, Mode, Registry
from holdfast.hooks import Hooks, InThread
from holdfast.job.importable import name_in_child

if TYPE_CHECKING:
    from holdfast.handlers.resources import Recipe, Resources

Call = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Calls the function, given the resources of the attempt."""


class Surroundings:
    """What lies around one task's function."""

    def __init__(
        self,
        hooks: Hooks,
        in_thread: tuple[InThread, ...],
        resources: Resources | None,
        own: Mapping[str, Recipe],
    ) -> None:
        self._hooks = hooks
        self._around = hooks.around_attempt[::-1]
        self._resources = resources
        self._own = own
        self._in_thread = in_thread

    @property
    def importable_hooks(self) -> tuple[tuple[str, str], ...]:
        """The hooks in threads, as a child process can import them."""
        return tuple(
            (name_in_child(hook.__module__), hook.__qualname__) for hook in self._in_thread
        )

    def carried(self, context: Context) -> dict[str, str]:
        """What the hooks hand on to the child process of this attempt."""
        return self._hooks.carried(context)

    async def run(self, context: Context, call: Call) -> Any:
        """Call the function inside its hooks, with its resources. What a resource raises when it is
        left is raised here, as if the function had raised it."""
        run: Callable[[], Awaitable[Any]] = partial(self._with_resources, context, call)
        for hook in self._around:
            run = partial(hook, context, run)
        return await run()

    async def _with_resources(self, context: Context, call: Call) -> Any:
        if not self._own or self._resources is None:
            return await self._called(context, call, {})
        async with _Unswallowed() as stack:
            made = await self._resources.made(self._own, context, stack)
            return await self._called(context, call, made)

    async def _called(self, context: Context, call: Call, resources: Mapping[str, Any]) -> Any:
        """An attempt that was ended meanwhile raises, so that nothing around it commits."""
        value = await call(resources)
        context.require_own()
        return value

    def inside(self, context: Context, call: Callable[[], Any]) -> Callable[[], Any]:
        """The call of a plain function with the hooks that run in its own thread."""
        for hook in reversed(self._in_thread):
            call = partial(hook, context, call)
        return call


class _Unswallowed(AsyncExitStack):
    """Raises what the block raised also if a resource swallows it. Otherwise a job whose time was
    over could succeed."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        await super().__aexit__(kind, error, trace)
        return False


def surrounded(registry: Registry, hooks: Hooks, resources: Resources | None) -> Registry:
    """The same handlers, each with what lies around it. `resources` are entered already."""
    found = Registry()
    for handler in registry.handlers:
        found.add(_surrounded(handler, hooks, resources))
    return found


def _surrounded(handler: Handler, hooks: Hooks, resources: Resources | None) -> Handler:
    in_thread = () if handler.mode is Mode.LOOP else hooks.in_thread
    function = handler.function
    own: Mapping[str, Recipe] = {}
    if resources is not None and handler.signature.resources:
        fixed, own = resources.split(handler.recipes())
        function = partial(function, **fixed) if fixed else function
    if handler.mode is Mode.PROCESS:
        _require_importable(handler.name, in_thread)
    to_child = handler.mode is Mode.PROCESS and hooks.to_child
    if not (hooks.around_attempt or in_thread or to_child or own):
        return replace(handler, function=function)
    return replace(
        handler,
        function=function,
        surroundings=Surroundings(hooks, in_thread, resources, own),
    )


def _require_importable(task: str, hooks: tuple[InThread, ...]) -> None:
    for hook in hooks:
        name = getattr(hook, "__qualname__", "<")
        if "<" in name:
            problem = "a hook in threads that a child process can import"
            raise BadTask(
                task, f"process=True needs {problem}: define {hook!r} at the top level of a module"
            )
