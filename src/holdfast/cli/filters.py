"""Options that several commands share: which jobs are meant, and times as people write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from holdfast.cli.target import UsageProblem
from holdfast.clock import utcnow
from holdfast.insights.when import parse_moment
from holdfast.job.duration import EXAMPLES, parse_duration
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from holdfast.client.selection import FilterWords

F = TypeVar("F", bound=Callable[..., Any])
Body = Callable[..., Any]


imports_option = click.option(
    "--import",
    "-I",
    "imports",
    metavar="MODULE",
    multiple=True,
    help="A module that declares tasks (repeatable).  [env var: HOLDFAST_IMPORTS]",
)


class JobFilters(msgspec.Struct, frozen=True):
    """The options that say which jobs are meant, for `list` and for every bulk verb."""

    queue: tuple[str, ...]
    state: tuple[str, ...]
    task: tuple[str, ...]
    tag: tuple[str, ...]
    where: str | None
    since: datetime | None
    until: datetime | None
    error: str | None

    @property
    def words(self) -> FilterWords:
        """The same as words of the client's filter; an option that was not given is no word."""
        words: FilterWords = {}
        if self.queue:
            words["queues"] = self.queue
        if self.state:
            words["states"] = self.state
        if self.task:
            words["tasks"] = self.task
        if self.tag:
            words["tags"] = self.tag
        if self.where is not None:
            words["where"] = self.where
        if self.error:
            words["error_text"] = self.error
        if self.since:
            words["created_after"] = self.since
        if self.until:
            words["created_before"] = self.until
        return words


def job_filters(body: Body) -> Body:
    """Add the options of `JobFilters`; the body takes them as one argument `filters`."""

    @wraps(body)
    def gathered(session: object, **given: Any) -> Any:
        words = {name: given.pop(name) for name in JobFilters.__struct_fields__}
        return body(session, filters=JobFilters(**words), **given)

    options = (
        click.option("--queue", "-q", multiple=True, help="Only this queue (repeatable)."),
        click.option(
            "--state",
            "-s",
            multiple=True,
            help="Only this state (repeatable).",
            shell_complete=lambda ctx, param, begun: [s for s in JobState if s.startswith(begun)],
        ),
        click.option("--task", "-t", multiple=True, help="Only this task (repeatable)."),
        click.option("--tag", multiple=True, help="Only jobs with this tag (repeatable: all)."),
        click.option(
            "--where",
            metavar="FILTER",
            help="The same and more: 'queue:mail state:failed args.customer:42 since:2h'.",
        ),
        moment_option("--since", help="Created after: '2h' (ago) or an ISO time."),
        moment_option("--until", help="Created before: '2h' (ago) or an ISO time."),
        click.option("--error", help="Only jobs with this text in an error."),
    )
    return all_of(*options)(gathered)


def all_of(*options: Callable[[Body], Body]) -> Callable[[F], F]:
    """Several options as one decorator; the help lists them in this order."""

    def add(body: Any) -> Any:
        for option in reversed(options):
            body = option(body)
        return body

    return add


# Times ------------------------------------------------------------------------------------

Reader = Callable[[str, str], object]


def _time_option(*names: str, metavar: str, read: Reader, **more: Any) -> Callable[[F], F]:
    def value(ctx: click.Context, param: click.Parameter, text: str | None) -> object:
        return None if text is None else read(param.opts[0], text)

    return click.option(*names, metavar=metavar, callback=value, **more)


def wait_option(*names: str, **more: Any) -> Callable[[F], F]:
    """How long: the body gets seconds."""
    return _time_option(*names, read=wait, **{"metavar": "TIME", **more})


def moment_option(*names: str, **more: Any) -> Callable[[F], F]:
    """A moment of the past: the body gets a `datetime`."""
    return _time_option(*names, metavar="WHEN", read=moment, **more)


def when_option(*names: str, **more: Any) -> Callable[[F], F]:
    """A moment of the past or the future: the body gets a `datetime`."""
    return _time_option(*names, metavar="WHEN", read=when, **more)


def due_option(*names: str, **more: Any) -> Callable[[F], F]:
    """A moment of the future: the body gets a `datetime`."""
    return _time_option(*names, metavar="WHEN", read=due_time, **more)


def moment(option: str, text: str) -> datetime:
    """A moment as an ISO time, or as how long ago it was."""
    found = parse_moment(text)
    if found is None:
        raise UsageProblem(
            f"{option} must be a time such as 2026-03-01T12:00 or how long ago, such as 90s, "
            f"15m, 2h, 3d; got {text!r}"
        )
    return found


def when(option: str, text: str) -> datetime:
    """A moment: `2h` is two hours ago, as in other commands, and `+7d` is in seven days."""
    ahead = parse_duration(text[1:]) if text.startswith("+") else None
    if ahead is None:
        return moment(option, text)
    try:
        return utcnow() + timedelta(seconds=ahead)
    except OverflowError:
        raise UsageProblem(f"{option} is past the end of the calendar; got {text!r}") from None


def due_time(option: str, text: str) -> datetime:
    """A moment in the future, as an ISO time. `2h` is refused, because elsewhere it means two
    hours ago."""
    if parse_duration(text) is not None:
        raise UsageProblem(f"{option} must be a time such as 2026-03-01T12:00; got {text!r}")
    return moment(option, text)


def wait(option: str, text: str) -> float:
    """How many seconds to wait, from `90`, `15m` or `2h`."""
    found = parse_duration(text)
    if found is None:
        raise UsageProblem(f"{option} must be {EXAMPLES}; got {text!r}")
    return found
