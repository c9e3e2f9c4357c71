"""Errors about the store itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors.base import HoldfastError


class StoreError(HoldfastError):
    """Something about the store itself."""


class StoreUnavailable(StoreError):
    """The store cannot be reached now; the same call may succeed later."""


class StoreFull(StoreUnavailable):
    """The server answers, but has no connection left to give."""

    def __init__(self, where: str, answer: str) -> None:
        super().__init__(
            f"{where} has no room for another connection: {answer}; close some, raise "
            "max_connections, or put a pooler in front of it"
        )


class StoreRefuses(StoreError):
    """The store answers, but rights, schema or memory keep it from serving this program until
    somebody mends the store. The call itself was not at fault. A running worker waits."""


class AccessRefused(StoreRefuses):
    """The store refuses the login, or lacks a grant for what this program does."""


class SchemaMissing(StoreRefuses):
    """The store was never migrated."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} has no Holdfast schema: run 'holdfast migrate', "
            "or set HOLDFAST_AUTO_MIGRATE=1"
        )


class RowRefused(StoreError):
    """The store cannot hold one of the values that it was sent: the value is too large, or has no
    form in the store. The same call would always fail; the other rows of the call are sound."""


class PartlyInserted(StoreError):
    """A store took some jobs of one call and refused the others.

    `answers` has one entry for each job, in the order given: `Inserted` if the job was written,
    None if it was refused. Jobs after the last entry were not tried. The same jobs may be inserted
    again under their ids: a job that was written is not added twice.
    """

    def __init__(self, answers: Sequence[Any], reason: StoreError) -> None:
        stand = sum(answer is not None for answer in answers)
        super().__init__(
            f"{stand} of {len(answers)} jobs were written and stand, the others were not: {reason}"
        )
        self.answers = tuple(answers)
        self.reason = reason


class SchemaOutdated(StoreError):
    """Migrations of this program have not been applied yet."""

    def __init__(self, where: str, have: int, want: int) -> None:
        super().__init__(
            f"{where} is at schema version {have} but this program needs {want}: "
            "run 'holdfast migrate'"
        )


class SchemaTooNew(StoreError):
    """A newer program migrated this store; an older one must not write to it."""

    def __init__(self, where: str, have: int, want: int) -> None:
        super().__init__(
            f"{where} is at schema version {have} but this program only knows {want}: "
            "upgrade holdfast before using this store"
        )


class SchemaTampered(StoreError):
    """An applied migration differs from the file this program carries."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"migration {name} was applied with other contents than this program carries: "
            "restore the file or install the release that applied it"
        )


class NotCapable(StoreError):
    """This kind of store cannot do what was asked."""

    def __init__(self, store: str, what: str) -> None:
        super().__init__(f"a {store} store cannot {what}")
