"""What a peer's script has to offer besides, if the peer has groups and pipelines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from bench.peers.scripts.peer import Peer


class FlowPeer(Peer):
    @abstractmethod
    async def start_group(self, numbers: Sequence[int]) -> None:
        """Jobs that run at the same time; the last number is the job that runs after all others."""

    @abstractmethod
    async def start_pipeline(self, numbers: Sequence[int]) -> None:
        """Jobs that run one after the other, each with the result of the one before."""
