"""What a set of tasks holds, and how one set includes another.

What is declared in a set is declared in everything that includes it: a name is checked in all of
them first, and then added to all of them. Including never renames.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.declaring.declared import DeclaredTask
from holdfast.declaring.routes import Routes
from holdfast.errors import BadOption, NotIncluded, UnknownTask
from holdfast.handlers.registry import Registry
from holdfast.job import checks
from holdfast.schedule.decorator import ScheduleDecorator
from holdfast.schedule.providers import Providers
from holdfast.task import TaskHost

if TYPE_CHECKING:
    from holdfast.handlers.pools import ChildPool
    from holdfast.limits.definition import Limit
    from holdfast.schedule.model import Definition

AnyTask = DeclaredTask[..., Any, ..., Any]


class TasksByName(dict[str, AnyTask]):
    """`app.tasks["mail.send"]`. A name that is not there is told what there is."""

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownTask(name, list(self))


class TaskSet:
    """Tasks, schedules, limits, pools and providers by their names, and who includes them. `place`:
    where the set was made, for people. `prefix` begins the names of its tasks and schedules."""

    def __init__(self, place: str, prefix: str) -> None:
        self.registry = Registry()
        self.tasks = TasksByName()
        self.schedules: dict[str, Definition] = {}
        self.limits: dict[str, Limit] = {}
        self.providers = Providers()
        self.pools: dict[str, ChildPool] = {}
        self._routes = Routes()
        self._includers: list[TaskSet] = []
        self._unfinished: list[ScheduleDecorator] = []
        self._place = place
        self._prefix = prefix

    def _include(self, one: TaskSet) -> None:
        owners = self._lineage()
        checks.kind("include", one, TaskSet, "given Tasks, a set of tasks")
        if one.as_host is not None:
            raise BadOption("include", "given Tasks (a set without an app)", one)
        if one in owners:
            raise BadOption("include", "given a set that does not include this one", one)
        if self in one._includers:
            return
        for owner in owners:
            owner._require_free(one)
        one._includers.append(self)
        for owner in owners:
            owner._adopt(one)

    def _require_free(self, one: TaskSet) -> None:
        for name in one._routes.without:
            self._routes.require_not_for(name)
        for handler in one.registry.handlers:
            self.registry.require_free(handler)
        for what, known, new in self._books_beside(one):
            for name, value in new.items():
                if known.get(name, value) is not value:
                    raise BadOption(what, "one that is free in all that include it", name)

    def _adopt(self, one: TaskSet) -> None:
        for task in one.tasks.values():
            self._add(task)
        for _, known, new in self._books_beside(one):
            known.update(new)
        self._unfinished += one._unfinished
        self._routes.left_out(one._routes.without)

    def _books_beside(
        self, one: TaskSet
    ) -> list[tuple[str, MutableMapping[str, Any], MutableMapping[str, Any]]]:
        mine, other = self.providers, one.providers
        return [
            ("schedule name", self.schedules, one.schedules),
            ("scope provider", mine.scopes, other.scopes),
            ("planner", mine.planners, other.planners),
            ("pool name", self.pools, one.pools),
            ("name of a limit", self.limits, one.limits),
        ]

    def _lineage(self) -> list[TaskSet]:
        """This set, and every set and app that includes it, each once."""
        found: list[TaskSet] = [self]
        for owner in found:  # grows on the way
            found += [above for above in owner._includers if above not in found]
        return found

    def _add(self, task: AnyTask) -> None:
        self.registry.add(task.handler)
        self.tasks[task.name] = task

    def _register(
        self,
        book: Callable[[TaskSet], MutableMapping[str, Any]],
        what: str,
        expected: str,
        name: str,
        value: object,
    ) -> None:
        """Put a name into a book of this set, and of all that include it."""
        books = [book(owner) for owner in self._lineage()]
        if any(name in known for known in books):
            raise BadOption(what, expected, name)
        for known in books:
            known[name] = value

    def require_finished(self) -> None:
        """Refuse a schedule on a function that never became a task: it would never run."""
        for decorator in self._unfinished:
            decorator.require_task()
        self._unfinished.clear()

    def host(self, task: str) -> TaskHost:
        """The app that enqueues the jobs of this task. If the set is in several apps, it is the
        one that is open."""
        hosts = [host for owner in self._lineage() if (host := owner.as_host) is not None]
        if len(hosts) > 1:
            opened = [host for host in hosts if host.is_open]
            hosts = opened if len(opened) == 1 else hosts
        match hosts:
            case [host]:
                return host
            case []:
                raise NotIncluded.in_none(task, self._place)
            case _:
                raise NotIncluded.in_several(task, len(hosts))

    @property
    def as_host(self) -> TaskHost | None:
        """This object, if it is an app."""
        return None
