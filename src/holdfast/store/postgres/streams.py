"""Streams on Postgres. Frames of live streams lie in a table that is not logged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from holdfast.job.ids import JobId
from holdfast.job.stream import Followed, FollowFrom, Keep, KeptFrames, NewFrames, StreamPart
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.pool import Record


class PostgresStreams:
    """See `holdfast.store.contract.streams.Streams` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel

    async def append(self, frames: Sequence[NewFrames]) -> list[bool]:
        if not frames:
            return []
        if not any(map(_clears, frames)):
            return await self._append(self._connections, frames)

        async def work(session: Session) -> list[bool]:
            kept = await self._append(session, frames)
            await _clear(session, [one for one, ours in zip(frames, kept, strict=True) if ours])
            return kept

        return await self._connections.run(work, transaction=True)

    async def _append(self, on: Connections | Session, frames: Sequence[NewFrames]) -> list[bool]:
        rows = await on.timed(
            "streams/append",
            self._channel,
            [one.id for one in frames],
            [one.fence for one in frames],
            [one.stream for one in frames],
            [one.last for one in frames],
            [one.number for one in frames],
            [one.data for one in frames],
            [one.section for one in frames],
            [one.since for one in frames],
            [one.again for one in frames],
            [one.whole for one in frames],
            [one.closes for one in frames],
            [one.keep.value for one in frames],
        )
        held = {(row[0], row[1]) for row in rows}
        return [(one.id, one.fence) in held for one in frames]

    async def read(self, wants: Sequence[FollowFrom], limit: int) -> list[Followed]:
        if not wants:
            return []
        rows = await self._connections.fetch(
            "streams/read",
            [one.id for one in wants],
            [one.stream for one in wants],
            [one.fence for one in wants],
            [one.n for one in wants],
            limit,
        )
        return [_followed(list(some)) for _, some in groupby(rows, key=lambda row: row["place"])]

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[StreamPart]]:
        found: dict[JobId, list[StreamPart]] = {}
        if ids:
            for row in await self._connections.fetch("streams/of", list(ids)):
                found.setdefault(JobId(row[0]), []).append(_part(row))
        return found

    async def trim(self, kept: float, limit: int) -> int:
        return len(await self._connections.timed("streams/trim", kept, limit))


def _clears(one: NewFrames) -> bool:
    return one.replaces is not None or one.keeps_from is not None


async def _clear(session: Session, frames: Sequence[NewFrames]) -> None:
    """The lease is locked by now. It is a statement of its own, because frames that were written
    by the same statement could not be seen."""
    gone: list[tuple[NewFrames, str | None, int]] = [
        (one, one.section, one.replaces) for one in frames if one.replaces is not None
    ]
    gone += [(one, None, one.keeps_from) for one in frames if one.keeps_from is not None]
    if gone:
        await session.fetch(
            "streams/clear",
            [one.id for one, *_ in gone],
            [one.stream for one, *_ in gone],
            [section for _, section, _ in gone],
            [one.fence for one, *_ in gone],
            [n for *_, n in gone],
        )


def _followed(rows: list[Record]) -> Followed:
    return Followed([_frames(row) for row in rows if row["fence"] is not None], rows[0]["is_live"])


def _frames(row: Record) -> KeptFrames:
    _, fence, last, number, data, section, since, again, whole, closes, live, at, _ = row
    return KeptFrames(
        fence=fence,
        last=last,
        number=number,
        data=data,
        section=section,
        since=since,
        again=again,
        whole=whole,
        closes=closes,
        live=live,
        at=at,
    )


def _part(row: Record) -> StreamPart:
    _, stream, section, keep, number, size, at, closed = row
    return StreamPart(
        stream=stream,
        section=section,
        keep=Keep(keep),
        number=number,
        size=size,
        at=at,
        closed=closed,
    )
