"""Streams: their frames are encrypted, bound to the job and the stream. Names are not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.job.stream import Followed, FollowFrom, KeptFrames, NewFrames
from holdfast.store.contract.streams import Streams
from holdfast.store.sealed.records import Records, opened

_replace = msgspec.structs.replace


class SealedStreams:
    def __init__(self, streams: Streams, records: Records) -> None:
        self._streams = streams
        self._records = records
        self.of = streams.of
        self.trim = streams.trim

    async def append(self, frames: Sequence[NewFrames]) -> list[bool]:
        return await self._streams.append([self._sealed(one) for one in frames])

    async def read(self, wants: Sequence[FollowFrom], limit: int) -> list[Followed]:
        """Frames that do not open stay encrypted, and say so."""
        return [
            Followed([self._opened(want, one) for one in found.frames], found.live)
            for want, found in zip(wants, await self._streams.read(wants, limit), strict=True)
        ]

    def _sealed(self, one: NewFrames) -> NewFrames:
        owner = self._records.owner(one.id)
        return _replace(one, data=owner.seal(_field(one.stream), one.data))

    def _opened(self, want: FollowFrom, one: KeptFrames) -> KeptFrames:
        owner = self._records.owner(want.id)
        return _replace(one, data=opened(owner, _field(want.stream), one.data))


def _field(stream: str) -> str:
    return f"stream {stream}"
