"""Streams on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ids import JobId
from holdfast.job.state import ENDED
from holdfast.job.stream import Followed, FollowFrom, Keep, KeptFrames, NewFrames, StreamPart
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.rows import after, to_datetime, to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.steps import held_and_tied
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs

SMALL_BATCH = 64
"""So many rows are written in less than a millisecond."""
_ENDED = to_json(ENDED)


class SqliteStreams(Verbs):
    """See `holdfast.store.contract.streams.Streams` for what each verb promises."""

    async def append(self, frames: Sequence[NewFrames]) -> list[bool]:
        if not frames:
            return []
        return await self._writer.write(
            lambda tx: append(tx, frames), small=len(frames) <= SMALL_BATCH
        )

    async def read(self, wants: Sequence[FollowFrom], limit: int) -> list[Followed]:
        if not wants:
            return []
        return await self._writer.read(lambda tx: _read(tx, wants, limit))

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[StreamPart]]:
        found: dict[JobId, list[StreamPart]] = {}
        if ids:
            wanted = (to_json(dict.fromkeys(ids)),)
            for row in await self._writer.read(lambda tx: tx.rows(script("streams/of"), wanted)):
                found.setdefault(JobId(row[0]), []).append(_part(row))
        return found

    async def trim(self, kept: float, limit: int) -> int:
        return await self._writer.write(
            lambda tx: tx.changed(
                script("streams/trim"), {"before": after(tx.now, -kept), "limit": limit}
            )
        )


def append(tx: Transaction, frames: Sequence[NewFrames]) -> list[bool]:
    sql = steps("streams/append")
    kept = held_and_tied(tx, [(one.id, one.fence) for one in frames])
    ours = [one for one, is_ours in zip(frames, kept, strict=True) if is_ours]
    if ours:
        tx.each(sql["keep"], [_row(one, tx.now) for one in ours])
        tx.each(sql["replace"], [_replaced(one) for one in ours if one.replaces is not None])
        tx.each(sql["keep from"], [_older(one) for one in ours if one.keeps_from is not None])
        tx.wake(Topic.STREAMS)
    return kept


def _row(one: NewFrames, now: int) -> Row:
    place = (one.id, one.stream, one.fence, one.last, one.number)
    section = (one.section, one.since, one.again, one.whole, one.closes)
    return (*place, *section, one.keep.value, now, one.data)


def _replaced(one: NewFrames) -> Row:
    return (one.id, one.stream, one.section, one.fence, one.replaces)


def _older(one: NewFrames) -> Row:
    return (one.id, one.stream, one.fence, one.keeps_from)


def _read(tx: Transaction, wants: Sequence[FollowFrom], limit: int) -> list[Followed]:
    sql = steps("streams/read")
    live = {job for (job,) in tx.rows(sql["live"], (to_json({one.id for one in wants}), _ENDED))}
    return [
        Followed(
            [
                _frames(row)
                for row in tx.rows(sql["frames"], (one.id, one.stream, one.fence, one.n, limit))
            ],
            one.id in live,
        )
        for one in wants
    ]


def _frames(row: Row) -> KeptFrames:
    fence, last, number, data, section, since, again, whole, closes, live, at = row
    return KeptFrames(
        fence=fence,
        last=last,
        number=number,
        data=data,
        section=section,
        since=since,
        again=bool(again),
        whole=bool(whole),
        closes=bool(closes),
        live=bool(live),
        at=to_datetime(at),
    )


def _part(row: Row) -> StreamPart:
    _, stream, section, keep, number, size, at, closed = row
    return StreamPart(
        stream=stream,
        section=section,
        keep=Keep(keep),
        number=number,
        size=size,
        at=to_datetime(at),
        closed=bool(closed),
    )
