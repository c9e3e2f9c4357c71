"""Streams on Valkey: each is a stream of the server, whose entries have positions as their ids."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.stream import Followed, FollowFrom, Keep, KeptFrames, NewFrames, StreamPart
from holdfast.store.valkey.connection import Call, ValkeyVerbs
from holdfast.store.valkey.layout import FramesRow
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.requests import NewFramesRow

_to_frames_row = msgspec.msgpack.Decoder(FramesRow).decode
_Part = tuple[str, str, str, str, int, int, int, bool]
_to_part = msgspec.msgpack.Decoder(_Part).decode


class ValkeyStreams(ValkeyVerbs):
    """See `holdfast.store.contract.streams.Streams` for what each verb promises."""

    async def append(self, frames: Sequence[NewFrames]) -> list[bool]:
        places = self._connections.places_by_partition([one.id for one in frames])
        calls: list[Call] = [
            ("streams/append", partition, {"chosen": [_new_row(frames[n]) for n in mine]})
            for partition, mine in places.items()
        ]
        kept = [False] * len(frames)
        answers = await self._connections.call_each(calls) if calls else []
        for mine, answer in zip(places.values(), answers, strict=True):
            for n, is_ours in zip(mine, answer, strict=True):
                kept[n] = bool(is_ours)
        if not all(kept):
            await self._connections.require_marked(places)
        return kept

    async def read(self, wants: Sequence[FollowFrom], limit: int) -> list[Followed]:
        places = self._connections.places_by_partition([one.id for one in wants])
        calls: list[Call] = [
            ("streams/read", partition, {"most": limit, "wanted": [_want(wants[n]) for n in mine]})
            for partition, mine in places.items()
        ]
        found = [Followed([], live=False)] * len(wants)
        answers = await self._connections.call_each(calls) if calls else []
        for mine, answer in zip(places.values(), answers, strict=True):
            for n, (is_live, entries) in zip(mine, answer, strict=True):
                pairs = zip(entries[::2], entries[1::2], strict=True)
                found[n] = Followed([_frames(*pair) for pair in pairs], bool(is_live))
        return found

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[StreamPart]]:
        calls: list[Call] = [
            ("streams/of", partition, {"chosen": mine})
            for partition, mine in self._connections.by_partition(ids).items()
        ]
        answers = await self._connections.call_each(calls) if calls else []
        rows = sorted(_to_part(row) for answer in answers for row in answer)
        found: dict[JobId, list[StreamPart]] = {}
        for row in rows:
            found.setdefault(JobId(row[0]), []).append(_part(row))
        return found

    async def trim(self, kept: float, limit: int) -> int:
        gone = 0
        for partition in self._connections.partitions:
            given = {"kept": kept, "most": limit - gone}
            gone += int(await self._connections.call("streams/trim", partition, given))
            if gone >= limit:
                break
        return gone


def _new_row(one: NewFrames) -> NewFramesRow:
    return NewFramesRow(
        one.id,
        one.fence,
        one.stream,
        _place(one.fence, one.last),
        one.number,
        one.data,
        one.section,
        one.since,
        one.again,
        one.whole,
        one.closes,
        one.keep.value,
        False if one.replaces is None else _place(one.fence, one.replaces),
        False if one.keeps_from is None else _place(one.fence, one.keeps_from),
    )


def _place(fence: int, n: int) -> str:
    """The id of an entry. The server counts from 1 within one that begins with 0."""
    return f"{fence}-{n + 1}"


def _want(want: FollowFrom) -> tuple[str, str, str]:
    return want.id, want.stream, _place(want.fence, want.n)


def _frames(place: bytes, blob: bytes) -> KeptFrames:
    fence, _, n = place.decode().partition("-")
    row = _to_frames_row(blob)
    return KeptFrames(
        fence=int(fence),
        last=int(n) - 1,
        number=row.number,
        data=row.data,
        section=row.section,
        since=row.since,
        again=row.again,
        whole=row.whole,
        closes=row.closes,
        live=row.keep == Keep.LIVE,
        at=to_datetime(row.at),
    )


def _part(row: _Part) -> StreamPart:
    _, stream, section, keep, number, size, at, closed = row
    return StreamPart(
        stream=stream,
        section=section,
        keep=Keep(keep),
        number=number,
        size=size,
        at=to_datetime(at),
        closed=closed,
    )
