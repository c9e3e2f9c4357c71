"""Other queues, measured on the same servers as Holdfast and by the same definitions.

Each runs in a virtual environment of its own, so that nobody's pins reach anybody else, with the
setting that was fastest on a machine of two cores. What is imported from here on, `scripts`
included, needs nothing but the standard library and the one peer: it also runs in there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from bench.measure import Contender, Sample
from bench.peers.once import measured_once
from bench.peers.roster import FLOWS, LIMITS, PEERS, STEPS, Peer

if TYPE_CHECKING:
    from bench.places import Place

__all__ = ["ALL", "contenders"]

ALL = frozenset(peer.name for peer in PEERS)


def contenders(
    place: Place, workload: str, names: Collection[str] | None = None
) -> list[Contender]:
    """The peers that run on this store; without `names`, those that were fastest at something, or
    all that have flows, steps or limits."""
    special = workload in FLOWS | STEPS | LIMITS
    return [
        _contender(peer, place, workload)
        for peer in PEERS
        if peer.store == place.name and peer.meets(workload)
        if (peer.fastest or special if names is None else peer.name in names)
    ]


def _contender(peer: Peer, place: Place, workload: str) -> Contender:
    async def measure() -> Sample:
        url = place.new_url()
        try:
            return await measured_once(peer, _plain(place, url), workload)
        finally:
            place.discard(url)

    return Contender(f"{peer.name} {peer.version}", measure, peer=True)


def _plain(place: Place, url: str) -> str:
    """As a peer expects it. On Valkey that is the server itself: it was emptied after whoever
    came before, and no peer knows Holdfast's namespaces."""
    return place.url.replace("valkey:", "redis:") + "/0" if place.name == "valkey" else url
