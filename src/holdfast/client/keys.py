"""The verbs on keys: `client.keys.status()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holdfast.job import checks
from holdfast.job.checks import check_job_id
from holdfast.store.contract.store import Store

if TYPE_CHECKING:
    from holdfast.insights.key_use import KeyStatus


class KeyVerbs:
    """What is asked about the keys that encrypt."""

    def __init__(self, store: Store) -> None:
        # A store that encrypts would open what is counted here: the store behind it holds it.
        self._store = cast("Store", getattr(store, "behind", store))

    async def status(self, *, look: int | None = None, cursor: str | None = None) -> KeyStatus:
        """Which keys are still needed, and by how many jobs and which schedules. It looks at so
        many jobs, newest first, and says whether there are more; `cursor` goes on from there. It
        needs no key."""
        from holdfast.insights.key_use import LOOK, key_status

        bound = LOOK if look is None else checks.count("look", look)
        after = None if cursor is None else check_job_id(cursor)
        return await key_status(self._store, bound, after)
