"""The verbs on queues: `client.queues.pause("mail")`."""

from __future__ import annotations

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.checks import check_name
from holdfast.store.contract.records import QueueInfo, QueueSettings
from holdfast.store.contract.store import Store


class QueueVerbs:
    """Read queues, pause, resume and tune them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def all(self, *names: str) -> list[QueueInfo]:
        """Every queue by name, or only the queues named."""
        return await self._store.queues.list(names)

    async def pause(self, name: str) -> None:
        """Stop claims from a queue; its running jobs go on."""
        check_name("queue", name)
        await self._store.queues.pause([name])

    async def resume(self, name: str) -> None:
        """Allow claims again, and end a cool-down of the queue."""
        check_name("queue", name)
        await self._store.queues.resume([name])

    async def tune(self, name: str, **changes: float | None) -> QueueSettings:
        """Change some settings of a queue; a redeploy never overwrites them."""
        check_name("queue", name)
        known = QueueSettings.__struct_fields__
        for option, value in changes.items():
            if option not in known:
                raise BadOption("queue setting", f"one of {', '.join(known)}", option)
            if value is not None or not option.startswith("retain_"):
                changes[option] = checks.seconds(option, value)
        found = await self._store.queues.list([name])
        settings = msgspec.structs.replace(
            found[0].settings if found else QueueSettings(), **changes
        )
        await self._store.queues.tune(name, settings)
        return settings
