"""What was asked of `holdfast worker`: for the worker of this process, or handed on to children."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.target import UsageProblem
from holdfast.job.serving import check_choice
from holdfast.logs.setup import LogPlan
from holdfast.worker.options import DEFAULT_SLOTS
from holdfast.worker.slots import Slots

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.opened_worker import OpenedWorker

SLOTS = re.compile(r"[0-9]+(\+[0-9]+)?")


class WorkerCall(msgspec.Struct, frozen=True):
    """What was asked of `holdfast worker`. `options` has only what was given."""

    locator: str | None
    queues: dict[str, int | Slots] | None
    strict: bool
    processes: int
    burst: bool
    options: dict[str, Any]
    logs: LogPlan
    health: str | None
    supervised: bool
    imports: tuple[str, ...]

    def as_arguments(self, url: str | None) -> list[str]:
        """The same call, as arguments for one child process, which gets a name of its own."""
        arguments = ["worker", *([self.locator] if self.locator else [])]
        if self.queues is not None:
            shown = ",".join(f"{queue}:{slots}" for queue, slots in self.queues.items())
            arguments += ["--queues", shown]
        given = {key: value for key, value in self.options.items() if key != "name"}
        arguments += [f"--{key.replace('_', '-')}={value}" for key, value in given.items()]
        arguments += ["--log-level", self.logs.level] if self.logs.level else []
        arguments += ["--supervised"]
        flags = {"--strict": self.strict, "--burst": self.burst, "--json-logs": self.logs.as_json}
        arguments += [flag for flag, wanted in flags.items() if wanted]
        arguments += [f"--import={module}" for module in self.imports]
        return [*arguments, *(["--url", url] if url else [])]

    def opened_on(self, app: App) -> OpenedWorker:
        names = {"child_processes": "processes"}
        options = {names.get(name, name): value for name, value in self.options.items()}
        for name in ("labels", "only"):
            if name in options:
                options[name] = [one.strip() for one in options[name].split(",") if one.strip()]
        return app.worker(self.queues, strict=self.strict, **options)


def parse_queues(text: str) -> dict[str, int | Slots]:
    """The slots of each queue.

    >>> parse_queues("mail:10, default, media:2+3")
    {'mail': 10, 'default': 50, 'media': Slots(least=2, weight=3)}
    """
    queues: dict[str, int | Slots] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        # A queue's own name may hold colons; then its slots must follow, so that a slip such as
        # `mail:1O` does not name a queue that no job is in.
        name, colon, slots = part.rpartition(":") if ":" in part else (part, "", "")
        if colon and not SLOTS.fullmatch(slots):
            raise UsageProblem(
                f"--queues: after the last colon of {part!r} must stand its slots, as in "
                f"'{name}:{DEFAULT_SLOTS}'; for a queue of that name say '{part}:{DEFAULT_SLOTS}'"
            )
        check_choice(name)
        if name in queues:
            raise UsageProblem(f"--queues names {name!r} twice")
        queues[name] = _slots(slots) if colon else DEFAULT_SLOTS
    if not queues:
        raise UsageProblem("--queues must name a queue, such as mail:10,default:50")
    return queues


def _slots(text: str) -> int | Slots:
    least, plus, weight = text.partition("+")
    return Slots(int(least), int(weight)) if plus else int(least)
