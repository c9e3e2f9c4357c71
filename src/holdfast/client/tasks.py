"""The verbs on tasks: `client.tasks.pause("mail.send")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.client.acting import Acts
from holdfast.insights.actions import Noun, Verb
from holdfast.insights.catalogue import KIND as CATALOGUE
from holdfast.job.checks import check_name
from holdfast.operations.rows import NameVerb
from holdfast.operations.verbs import NAME_VERBS
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store

if TYPE_CHECKING:
    from holdfast.handlers.registry import Handler

MOST_NAMES = 2_000
"""So many names of the catalogue are read."""


class TaskVerbs:
    """Pause tasks and resume them. A paused task's jobs stay ready, and nobody claims them.

    `tasks` are those that this program knows: with such a task all names are meant that it ever
    had, because jobs may wait under each of them.
    """

    def __init__(
        self, store: Store, acts: Acts | None = None, tasks: Mapping[str, Handler] | None = None
    ) -> None:
        self._store = store
        self._acts = acts or Acts()
        self._tasks = tasks or {}

    async def paused(self) -> tuple[str, ...]:
        """The names of the tasks that are paused."""
        return (await self._store.queues.paused()).tasks

    async def known(self) -> set[str]:
        """The names of the tasks that this program has or a worker of the last month had: of very
        many, some."""
        workers = await self._store.workers.find()
        published = await self._store.shelf.find(CATALOGUE, MOST_NAMES)
        of_workers = {task for worker in workers for task in worker.tasks}
        return {*self._tasks, *of_workers, *(one.key for one in published)}

    async def unknown(self, *names: str) -> list[str]:
        """Those of these names that nobody knows: no program, no worker of the last month and no
        job has such a task, and it is not paused."""
        known = {*await self.known(), *await self.paused()}
        others = [name for name in names if name not in known]
        return [name for name in others if not await self._has_jobs(name)]

    async def _has_jobs(self, name: str) -> bool:
        return bool(await self._store.jobs.count(JobFilter(tasks=(name,))))

    async def apply(self, row: NameVerb, name: str, *, by: str | None = None) -> None:
        """Apply a verb of the table to one task, which this program need not know."""
        check_name("task", name)
        names = self._tasks[name].names if name in self._tasks else (name,)
        async with self._acts.act(self._store, by, Noun.TASKS, row.verb, name) as act:
            await row.change(self._store, names)
            act.changed = 1

    async def pause(self, name: str, *, by: str | None = None) -> None:
        """Stop claims of a task's jobs, in every queue; running jobs go on."""
        await self.apply(NAME_VERBS[Noun.TASKS, Verb.PAUSE], name, by=by)

    async def resume(self, name: str, *, by: str | None = None) -> None:
        """Allow claims of a task's jobs again."""
        await self.apply(NAME_VERBS[Noun.TASKS, Verb.RESUME], name, by=by)
