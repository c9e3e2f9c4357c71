"""The verbs on queues: `client.queues.pause("mail")`."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.client.acting import Acts
from holdfast.errors import BadOption
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.checks import check_name
from holdfast.operations.rows import NameVerb
from holdfast.operations.verbs import NAME_VERBS
from holdfast.store.contract.queues import EVERY_QUEUE, QueueInfo, QueueSettings
from holdfast.store.contract.store import Store


class QueueVerbs:
    """Read queues, pause, resume and tune them."""

    def __init__(self, store: Store, acts: Acts | None = None) -> None:
        self._store = store
        self._acts = acts or Acts()

    async def all(self, *names: str) -> list[QueueInfo]:
        """Every queue by name, or only the queues named."""
        return await self._store.queues.find(names)

    async def apply(self, row: NameVerb, name: str, *, by: str | None = None) -> None:
        """Apply a verb of the table to one queue, which is made if it is absent."""
        check_name("queue", name)
        async with self._acts.act(self._store, by, Noun.QUEUES, row.verb, name) as act:
            await row.change(self._store, [name])
            act.changed = 1

    async def pause(self, name: str, *, by: str | None = None) -> None:
        """Stop claims from a queue; its running jobs go on."""
        await self.apply(NAME_VERBS[Noun.QUEUES, Verb.PAUSE], name, by=by)

    async def resume(self, name: str, *, by: str | None = None) -> None:
        """Allow claims again, and end a cool-down of the queue."""
        await self.apply(NAME_VERBS[Noun.QUEUES, Verb.RESUME], name, by=by)

    async def pause_all(self, *, by: str | None = None) -> None:
        """Stop all claims, also from queues that do not exist yet; running jobs go on."""
        async with self._acts.act(self._store, by, Noun.QUEUES, Verb.PAUSE, EVERY_QUEUE) as act:
            await self._store.queues.pause([EVERY_QUEUE])
            act.changed = 1

    async def resume_all(self, *, by: str | None = None) -> None:
        """End `pause_all`. A queue that was paused by its name, and a paused task, stay paused."""
        async with self._acts.act(self._store, by, Noun.QUEUES, Verb.RESUME, EVERY_QUEUE) as act:
            await self._store.queues.resume([EVERY_QUEUE])
            act.changed = 1

    async def all_paused(self) -> bool:
        """Whether `pause_all` stops every claim."""
        return (await self._store.queues.paused()).everything

    async def tune(self, /, name: str, *, by: str | None = None, **changes: Any) -> QueueSettings:
        """Change some settings of a queue; a redeploy never overwrites them."""
        check_name("queue", name)
        known = QueueSettings.__struct_fields__
        for option, value in changes.items():
            if option not in known:
                raise BadOption("queue setting", f"one of {', '.join(known)}", option)
            changes[option] = _checked(option, value)
        acting = self._acts.act(self._store, by, Noun.QUEUES, Verb.TUNE, name, value=changes)
        async with acting as act:
            found = await self._store.queues.find([name])
            settings = msgspec.structs.replace(
                found[0].settings if found else QueueSettings(), **changes
            )
            await self._store.queues.tune(name, settings)
            act.changed = 1
        return settings


def _checked(option: str, value: object) -> float | None:
    if value is None and not option.startswith("throttle_"):
        return None
    if option == "max_running":
        return checks.count(option, value, least=0)
    return checks.seconds(option, value, zero=option != "aging")
