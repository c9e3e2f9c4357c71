"""A real cluster of three nodes of one server program."""

from __future__ import annotations

import time

from holdfast.testing.servers.resp import Refusal
from holdfast.testing.servers.server import ServerFailed
from holdfast.testing.servers.throwaway_valkey import ThrowawayValkey
from holdfast.testing.servers.valkey import ValkeyServer
from holdfast.testing.servers.valkey_binaries import ValkeyBinary

SLOTS = 16_384
PATIENCE = 40.0


class ThrowawayCluster(ValkeyServer):
    """Three masters that share the slots, without replicas."""

    def __init__(self, binary: ValkeyBinary, *, nodes: int = 3) -> None:
        super().__init__()
        self.nodes = [ThrowawayValkey(binary, cluster=True) for _ in range(nodes)]

    def start(self) -> None:
        try:
            for node in self.nodes:
                node.start()
            self._join()
            self._wait_until_whole()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    @property
    def url(self) -> str:  # type: ignore[override]  # known only once ports were found
        return f"{self.nodes[0].url}?cluster=true"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", node.port) for node in self.nodes]

    def _join(self) -> None:
        """ADDSLOTS and not ADDSLOTSRANGE, which 6.2 does not know."""
        first, *others = self.nodes
        share = -(-SLOTS // len(self.nodes))
        for number, node in enumerate(self.nodes):
            mine = range(number * share, min((number + 1) * share, SLOTS))
            node.say("CLUSTER", "ADDSLOTS", *mine)
            node.say("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in others:
            first.say("CLUSTER", "MEET", "127.0.0.1", node.port)

    def _wait_until_whole(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while not all(self._sees_all(node) for node in self.nodes):
            if time.monotonic() > give_up:
                told = str(self.nodes[0].say("CLUSTER", "INFO"))
                raise ServerFailed("joining the cluster's nodes", told)
            time.sleep(0.05)

    def _sees_all(self, node: ThrowawayValkey) -> bool:
        try:
            told = str(node.say("CLUSTER", "INFO"))
        except (OSError, Refusal):
            return False
        wanted = ("cluster_state:ok", f"cluster_size:{len(self.nodes)}", f"assigned:{SLOTS}")
        return all(word in told for word in wanted)
