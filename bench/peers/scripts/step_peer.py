"""What a peer's script has to offer besides, if the peer records steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from bench.peers.scripts.peer import Peer


class StepPeer(Peer):
    @abstractmethod
    async def enqueue_steps(self, numbers: Sequence[int], steps: int) -> None:
        """Jobs that record so many steps, one after the other."""
