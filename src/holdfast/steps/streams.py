"""What a handler writes to: `async with ctx.stream("tokens") as out: await out.write(token)`.

The worker is told the step whose function writes a frame, and which try of the step it is: frames
of a step that is tried again replace those of the try before.
"""

from __future__ import annotations

from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.codec.results import Misfit, ResultType
from holdfast.codec.types import adapter_for
from holdfast.errors import BadOption, StreamRefused
from holdfast.job import checks
from holdfast.job.requests import CloseStream, WriteFrame
from holdfast.job.stream import LONGEST_NAME, Keep
from holdfast.steps.running import TRIES, WITHIN

if TYPE_CHECKING:
    from holdfast.context import Context

KEPT_TYPES = 1_000


class _Written:
    """What both kinds of stream share: the requests that they send, and what was written."""

    def __init__(self, context: Context, name: str, keep: str) -> None:
        self._context = context
        self.name = checks.text("the name of a stream", name, LONGEST_NAME)
        self._keep = _keep(keep)
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """All texts that were written here, one behind the other."""
        return "".join(self._texts)

    def _frame(self, data: Any) -> WriteFrame:
        try:
            kind: Any = type(data)
            text = _type_of(kind).encode(data)
        except Misfit as misfit:
            raise StreamRefused(f"stream {self.name!r}: a frame is no JSON: {misfit}") from misfit
        if isinstance(data, str):
            self._texts.append(data)
        return WriteFrame(self.name, self._keep, WITHIN.get(""), TRIES.get(0), text)

    def _end(self) -> CloseStream:
        return CloseStream(self.name, self._keep, WITHIN.get(""))


class Stream(_Written):
    """A stream of the job, for coroutines. Used with `async with`, it is closed at the end of the
    block, unless the block is left by an exception: then the attempt may write it again."""

    async def write(self, data: object) -> None:
        """Write a frame: anything that JSON can carry. It is not waited for until it is in the
        store, unless very much waits already. Raises `StreamRefused` if it cannot be kept, and
        `AttemptLost` when the attempt is no longer this worker's own."""
        await self._context.ask(self._frame(data))

    async def close(self) -> None:
        """Wait until all frames are in the store. Whoever follows the stream then gets to its end.
        Inside of a step it stays open for others."""
        await self._context.ask(self._end())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.close()


class SyncStream(_Written):
    """The same for plain functions, in a thread or a process, with `with`."""

    def write(self, data: object) -> None:
        """Write a frame: see `Stream.write`."""
        self._context.ask_sync(self._frame(data))

    def close(self) -> None:
        """Wait until all frames are in the store: see `Stream.close`."""
        self._context.ask_sync(self._end())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()


def _keep(value: str) -> Keep:
    try:
        return Keep(value)
    except ValueError:
        raise BadOption("keep", "'all', 'summary' or 'live'", value) from None


@lru_cache(KEPT_TYPES)
def _type_of(kind: Any) -> ResultType:
    return ResultType(Any, adapter_for(kind))
