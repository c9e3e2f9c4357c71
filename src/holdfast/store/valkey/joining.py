"""No caller has a transaction on Valkey that a job could join."""

from __future__ import annotations

from typing import TypeVar

from holdfast.errors import NotCapable
from holdfast.store.contract.joining import Work
from holdfast.store.contract.records import Capability

T = TypeVar("T")


class ValkeyJoining:
    """See `holdfast.store.contract.joining.Joining` for what each verb promises."""

    async def within(self, connection: object, work: Work[T]) -> T:
        return self.within_sync(connection, work)

    def within_sync(self, connection: object, work: Work[T]) -> T:
        raise NotCapable("valkey", Capability.JOIN_TRANSACTION.value)
