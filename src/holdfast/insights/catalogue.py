"""The catalogue of tasks: what workers publish about their tasks, for programs without their code.

A worker puts a document for each name of each of its tasks on the shelf of the store: what the task
takes, what is hidden of its jobs, its queue and the first line of its docstring. A task that no
worker has published for a month is gone from the catalogue.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.flow.approving import APPROVE
from holdfast.job.redacted_json import Path
from holdfast.job.redaction import BY_NAME, UNKNOWN, Rules
from holdfast.store.contract.shelf import VALUE_BYTES, Document, Shelf

if TYPE_CHECKING:
    from holdfast.handlers.registry import Handler

KIND = "task"
LONGEST_DOC = 200
BELIEVED_SECONDS = 30.0
"""How long a program that stays open believes what it has read."""
OF_HOLDFAST = {APPROVE: BY_NAME}
"""Tasks of Holdfast itself whose arguments people may see, although no worker publishes them: an
approval says whom it asks. A map is not here, because it carries arguments of other tasks."""


class CatalogueEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is published about one task. `schema` is the JSON Schema of its arguments; it is absent
    where there is none, or where it would be too large."""

    queue: str
    redact: tuple[Path, ...] = ()
    doc: str = ""
    schema: dict[str, Any] | None = None

    @classmethod
    def of(cls, handler: Handler, queue: str) -> CatalogueEntry:
        doc = (handler.function.__doc__ or "").strip().partition("\n")[0]
        schema = handler.signature.schema()
        return cls(queue, handler.rules.paths, doc[:LONGEST_DOC], schema)

    def to_text(self) -> str:
        text = msgspec.json.encode(self)
        if len(text) > VALUE_BYTES:
            text = msgspec.json.encode(msgspec.structs.replace(self, schema=None))
        return text.decode()


_decode = msgspec.json.Decoder(CatalogueEntry).decode


class Catalogue:
    """What is known of tasks: of `own` by their code, of others by what workers published."""

    def __init__(self, shelf: Shelf, own: Mapping[str, Handler] | None = None) -> None:
        self._shelf = shelf
        self._own = own or {}
        self._read: dict[str, Rules] = dict(OF_HOLDFAST)
        self._read_at = 0.0

    async def rules(self, tasks: Collection[str]) -> dict[str, Rules]:
        """What is hidden of the jobs of each of these tasks."""
        await self._look_up({task for task in tasks if task not in self._own})
        return {
            task: self._own[task].rules if task in self._own else self._read[task] for task in tasks
        }

    async def _look_up(self, tasks: set[str]) -> None:
        now = time.monotonic()
        if now - self._read_at > BELIEVED_SECONDS:
            self._read, self._read_at = dict(OF_HOLDFAST), now
        if missing := tasks - self._read.keys():
            found = {one.key: _rules(one) for one in await self._shelf.get(KIND, missing)}
            self._read |= {task: found.get(task, UNKNOWN) for task in missing}


def _rules(document: Document) -> Rules:
    """A document that this version cannot read says nothing, so nothing is shown."""
    try:
        return Rules(_decode(document.value).redact)
    except msgspec.DecodeError:
        return UNKNOWN
