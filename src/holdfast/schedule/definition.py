"""From what a user writes to a Definition, which `checking.py` checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict, TypeVar, cast
from zoneinfo import ZoneInfo

import msgspec

from holdfast.codec.calls import CallCodec
from holdfast.codec.signature import Signature
from holdfast.enqueue.options import JobOptions, Seconds, seconds
from holdfast.errors import BadArguments, BadOption, HoldfastError
from holdfast.job.line_rule import LineRule, Passing
from holdfast.job.policy import DAY, Retention, encode_policy
from holdfast.job.retry import Retry
from holdfast.schedule.checking import checked
from holdfast.schedule.model import CatchUp, Definition, OnCrash, Overlap, Rule
from holdfast.schedule.rule import in_utc

EXAMPLE_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""Stands for a plan time while the arguments of a schedule are checked as a call of its task."""
TEXT_OPTIONS = ("scopes", "scope_as", "planner", "plan_as")
NOT_FOR_SCHEDULES = ("delay", "run_at", "unique", "id", "connection")
E = TypeVar("E", bound=StrEnum)


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule, without its cron expression and without the options of its
    jobs."""

    every: Seconds
    timezone: str | ZoneInfo
    anchor: datetime
    start: datetime
    end: datetime
    delay: Seconds
    jitter: Seconds
    args: tuple[Any, ...] | Mapping[str, Any] | str
    catch_up: str
    window: Seconds
    cap: int
    lateness: Seconds
    overlap: str
    on_crash: str
    scopes: str
    scope_as: str
    planner: str
    plan_as: str
    keep: Seconds


class ScheduleCall(ScheduleOptions, total=False):
    """The options of a schedule and of its jobs. `delay` belongs to the schedule: it says how long
    after its plan time a plan is due."""

    queue: str
    priority: int
    deadline: Seconds | None
    start_by: Seconds | None
    timeout: Seconds | None
    retry: Retry | int
    max_crashes: int
    tags: Sequence[str]
    headers: Mapping[str, str]
    retention: Retention
    keep_result: bool


def define(
    task: str,
    codec: CallCodec,
    defaults: JobOptions,
    cron: str | timedelta | None,
    given: ScheduleCall,
) -> Definition:
    """The definition of a schedule of this task. Options in `given` win over the task's
    `defaults`."""
    own = ScheduleOptions.__annotations__
    chosen = cast("ScheduleOptions", {key: v for key, v in given.items() if key in own})
    options = defaults.using({key: v for key, v in given.items() if key not in own})
    return _define(task, codec, options, cron, chosen)


def _define(
    task: str,
    codec: CallCodec,
    options: JobOptions,
    cron: str | timedelta | None,
    chosen: ScheduleOptions,
) -> Definition:
    for name in NOT_FOR_SCHEDULES:
        if getattr(options, name) not in (None, msgspec.UNSET):
            raise BadOption(f"schedule of task {task!r}: {name}", "left to the schedule", name)
    for name in TEXT_OPTIONS:
        if not isinstance(chosen.get(name, ""), str):
            raise BadOption(name, "text", chosen.get(name))
    on_crash = _choice(OnCrash, "on_crash", chosen.get("on_crash", OnCrash.RETRY))
    definition = Definition(
        rule=rule_of(cron, chosen),
        task=task,
        queue=options.queue,
        args=_arguments(task, codec, chosen, options.line),
        policy=encode_policy(options.policy()),
        priority=options.priority,
        tags=options.tags,
        headers=options.headers_json(),
        catch_up=_choice(CatchUp, "catch_up", chosen.get("catch_up", CatchUp.LATEST)),
        window=_seconds("window", chosen.get("window", DAY)),
        cap=chosen.get("cap", 100),
        lateness=_optional_seconds("lateness", chosen.get("lateness")),
        overlap=_choice(Overlap, "overlap", chosen.get("overlap", Overlap.ALLOW)),
        on_crash=on_crash,
        scope_as=chosen.get("scope_as"),
        plan_as=chosen.get("plan_as"),
        deadline=_deadline(options),
        scopes=chosen.get("scopes"),
        planner=chosen.get("planner"),
        keep=_seconds("keep", chosen.get("keep", 30 * DAY)),
        line=_line(options.line),
    )
    return checked(definition)


def rule_of(cron: str | timedelta | None, chosen: Mapping[str, Any]) -> Rule:
    """The rule of a schedule. A timedelta in the place of the cron expression means every=…"""
    every = chosen.get("every")
    if isinstance(cron, timedelta) and every is None:
        cron, every = None, cron
    if not isinstance(cron, str | timedelta | None):
        raise BadOption("cron", "a cron expression or a timedelta", cron)
    if every is not None and "timezone" in chosen:
        raise BadOption("timezone", "left out with every=…, which knows no wall clock", "both")
    return Rule(
        cron=cron if cron is None else str(cron),
        timezone=zone_name(chosen.get("timezone", "UTC")),
        every=_optional_seconds("every", every),
        anchor=_moment("anchor", chosen.get("anchor")),
        delay=_seconds("delay", chosen.get("delay", 0.0)),
        jitter=_seconds("jitter", chosen.get("jitter", 0.0)),
        start=_moment("start", chosen.get("start")),
        end=_moment("end", chosen.get("end")),
    )


def zone_name(given: object) -> str:
    """The IANA name of a time zone that is given by its name or as a ZoneInfo."""
    name = given.key if isinstance(given, ZoneInfo) else given
    if not isinstance(name, str):
        raise BadOption("timezone", "an IANA name or a ZoneInfo that has one", given)
    return name


def _moment(option: str, given: object) -> datetime | None:
    if given is None:
        return None
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise BadOption(option, "a datetime with a time zone", given)
    return in_utc(option, given)


def _line(line: LineRule) -> LineRule | None:
    """The limits by their names alone: what they let pass is the store's to know."""
    if not line:
        return None
    limits = (Passing(one.limit, one.key, one.cost, one.is_path) for one in line.limits)
    return msgspec.structs.replace(line, limits=tuple(limits))


def _arguments(task: str, codec: CallCodec, chosen: ScheduleOptions, line: LineRule) -> str:
    """The arguments as JSON, checked as a call of the task with a scope and a plan time filled
    in. What the line of a job is made of is there, also if the function has a default for it."""
    filled = {"scope_as": "scope", "plan_as": EXAMPLE_TIME}
    taken = {str(chosen.get(key)): value for key, value in filled.items() if chosen.get(key)}
    try:
        text = _call(codec, chosen.get("args", ()), taken)
        codec.check(text)
    except BadArguments:
        raise
    except (HoldfastError, msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadArguments(task, f"the arguments of its schedule: {error}") from error
    call: dict[str, Any] = msgspec.json.decode(text)
    if line:
        line.passed(task, whole := _whole(codec, text))
        call |= {name: whole[name] for _, name in line.arguments}
    kept = {name: value for name, value in call.items() if name not in taken}
    return msgspec.json.encode(kept).decode()


def _whole(codec: CallCodec, text: str) -> dict[str, Any]:
    found: dict[str, Any] = (
        codec.completed(text) if isinstance(codec, Signature) else msgspec.json.decode(text)
    )
    return found


def _call(codec: CallCodec, given: object, taken: dict[str, Any]) -> str:
    """The call as JSON. A program gives values, a command line gives JSON text."""
    match given:
        case str():
            return msgspec.json.encode(msgspec.json.decode(given, type=dict) | taken).decode()
        case Mapping():
            return codec.encode((), {**given, **taken})
        case tuple() | list():
            return codec.encode(tuple(given), taken)
    raise BadOption("args", "a tuple, a mapping, or a JSON object as text", given)


def _deadline(options: JobOptions) -> float | None:
    for option in ("deadline", "start_by"):
        given = getattr(options, option)
        if isinstance(given, datetime):
            raise BadOption(option, "seconds from the time at which a plan's job starts", given)
    return options.split_deadline()[1]


def _choice(kind: type[E], option: str, given: str) -> E:
    try:
        return kind(given)
    except ValueError:
        raise BadOption(option, f"one of {', '.join(kind)}", given) from None


def _seconds(option: str, given: object) -> float:
    match given:
        case bool():
            pass
        case timedelta() | int() | float():
            with suppress(OverflowError):
                return seconds(given)
    raise BadOption(option, "seconds or a timedelta", given)


def _optional_seconds(option: str, given: object) -> float | None:
    return None if given is None else _seconds(option, given)
