"""The mark of a store: by it a program tells the store that it opened from a server in its place.

After a failover or a mistake, the address of a store may lead to a server that has none of its
jobs: a replica that has not synced, or a new master. Such a server says that there is no such job,
no such worker and nothing to do, and a new master takes jobs that no worker will ever run. So every
partition has a mark, a text that no other store has. A program that opens a store without a mark
writes one, and no program changes it.

- A new connection asks for the mark before any call is sent on it.
- A script that did not find a job or a worker returns the mark too, in the same step.
- The driver of a cluster makes connections by itself, so in a cluster only the scripts ask.

Where the mark is missing, the store counts as out of reach: a worker keeps its ends and goes on
with its handlers. A mark begins with the time at which it was made. A program that was started
while the address led elsewhere, and that opened a store there by mistake, changes to an older
store. A program never changes to a younger one: it must be restarted to begin with an empty store.
"""

from __future__ import annotations

from holdfast.errors import StoreUnavailable

FIRST = 0
"""The partition whose mark is asked for by a new connection to one server."""


class Marks:
    """The marks of one store as a program knows them. Siblings share them: the heartbeat of a
    worker must not open another store than the worker did."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: dict[int, bytes] = {}

    @property
    def known(self) -> bool:
        return bool(self._known)

    def learn(self, partition: int, mark: bytes) -> None:
        self._known[partition] = mark

    def forget(self) -> None:
        self._known.clear()

    def require(self, partition: int, found: bytes | None) -> None:
        """Raise an error unless the server that answered has this store, or an older one."""
        known = self._known.get(partition)
        if known is None or found == known:
            return
        if found is not None and found < known:
            self._known[partition] = found
            return
        has = "no store" if found is None else "a younger store"
        raise StoreUnavailable(
            f"{self._where} leads to a server that has {has} in this namespace (a replica that has "
            "not synced, or a new server): the program waits for the store that it opened; if that "
            "one is lost, restart all programs"
        )
