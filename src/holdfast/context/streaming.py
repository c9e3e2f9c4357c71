"""What a handler tells others while it runs: its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from holdfast.context.context import Context
    from holdfast.steps.streams import Stream, SyncStream

HowMuch = Literal["all", "summary", "live"]


class Streaming:
    """The part of a `Context` that others follow."""

    __slots__ = ()

    def stream(self, name: str, keep: HowMuch = "all") -> Stream:
        """A stream of the job, for whoever follows it while it runs:
        `async with ctx.stream("tokens") as out: await out.write(token)`.

        `keep` says what of it is kept with the job: all frames, a summary of them (each is a merge
        patch of one document), or the newest ones for a minute."""
        from holdfast.steps.streams import Stream  # only handlers with streams need it

        return Stream(cast("Context", self), name, keep)  # nothing else has this base

    def stream_sync(self, name: str, keep: HowMuch = "all") -> SyncStream:
        """`stream` for plain functions, in a thread or a process."""
        from holdfast.steps.streams import SyncStream  # as above

        return SyncStream(cast("Context", self), name, keep)
