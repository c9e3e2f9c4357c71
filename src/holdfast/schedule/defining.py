"""From what a user writes to a checked Definition: nothing is stored before all of it is good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict, TypeVar, cast

import msgspec

from holdfast.codec import Signature
from holdfast.errors import BadArguments, BadOption, HoldfastError
from holdfast.job import DAY, Retention, decode_policy, encode_policy
from holdfast.options import Options, Seconds, check_name, seconds
from holdfast.plan import CatchUp, Definition, OnCrash, Overlap, Rule
from holdfast.retry import Retry
from holdfast.schedule.rule import times_of

MOST_CAP = 10_000
SOMEWHEN = datetime(2000, 1, 1, tzinfo=UTC)
NOT_FOR_SCHEDULES = ("delay", "run_at", "unique", "id", "connection")
E = TypeVar("E", bound=StrEnum)


class ScheduleOptions(TypedDict, total=False):
    """Every option of a schedule but its rule's expression and the options of its jobs."""

    every: Seconds
    timezone: str
    anchor: datetime
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
    """The same with the options of its jobs. `delay` is the schedule's: how long after its plan
    time a plan is due."""

    queue: str
    priority: int
    deadline: Seconds
    timeout: Seconds | None
    retry: Retry
    max_crashes: int
    tags: Sequence[str]
    headers: Mapping[str, str]
    retention: Retention
    keep_result: bool


def define(
    task: str, signature: Signature, defaults: Options, cron: str | None, given: ScheduleCall
) -> Definition:
    """A definition of jobs of this task: its own enqueue options, and these laid over them."""
    own = ScheduleOptions.__annotations__
    chosen = cast("ScheduleOptions", {key: v for key, v in given.items() if key in own})
    options = defaults.using({key: v for key, v in given.items() if key not in own})
    return _define(task, signature, options, cron, chosen)


def _define(
    task: str,
    signature: Signature,
    options: Options,
    cron: str | None,
    chosen: ScheduleOptions,
) -> Definition:
    for name in NOT_FOR_SCHEDULES:
        if getattr(options, name) is not None:
            raise BadOption(f"schedule of task {task!r}: {name}", "left to the schedule", name)
    on_crash = _choice(OnCrash, "on_crash", chosen.get("on_crash", OnCrash.RETRY))
    definition = Definition(
        rule=rule_of(cron, chosen),
        task=task,
        queue=options.queue,
        args=_arguments(task, signature, chosen),
        policy=encode_policy(options.policy()),
        priority=options.priority,
        tags=options.tags,
        headers=options.headers_json(),
        catch_up=_choice(CatchUp, "catch_up", chosen.get("catch_up", CatchUp.LATEST)),
        window=seconds(chosen.get("window", DAY)),
        cap=chosen.get("cap", 100),
        lateness=None if chosen.get("lateness") is None else seconds(chosen["lateness"]),
        overlap=_choice(Overlap, "overlap", chosen.get("overlap", Overlap.ALLOW)),
        on_crash=on_crash,
        scope_as=chosen.get("scope_as"),
        plan_as=chosen.get("plan_as"),
        deadline=_deadline(options),
        scopes=chosen.get("scopes"),
        planner=chosen.get("planner"),
        keep=seconds(chosen.get("keep", 30 * DAY)),
    )
    return checked(definition)


def rule_of(cron: str | None, chosen: Mapping[str, Any]) -> Rule:
    every, anchor = chosen.get("every"), chosen.get("anchor")
    if anchor is not None and anchor.tzinfo is None:
        raise BadOption("anchor", "a datetime with a time zone", anchor)
    if every is not None and "timezone" in chosen:
        raise BadOption("timezone", "left out with every=…, which knows no wall clock", "both")
    return Rule(
        cron=cron,
        timezone=chosen.get("timezone", "UTC"),
        every=None if every is None else seconds(every),
        anchor=None if anchor is None else anchor.astimezone(UTC),
        delay=seconds(chosen.get("delay", 0.0)),
        jitter=seconds(chosen.get("jitter", 0.0)),
    )


def checked(definition: Definition) -> Definition:
    """The definition with what its `on_crash` means for the policy; a BadOption if any part of
    it is bad."""
    chosen = definition
    times_of(chosen.rule)
    check_name("task", chosen.task)
    check_name("queue", chosen.queue)
    for name in ("delay", "jitter"):
        _require_seconds(f"schedule {name}", getattr(chosen.rule, name), zero=True)
    _require_seconds("window", chosen.window)
    _require_seconds("keep", chosen.keep, zero=True)
    for name in ("lateness", "deadline"):
        if getattr(chosen, name) is not None:
            _require_seconds(name, getattr(chosen, name))
    if not 1 <= chosen.cap <= MOST_CAP:
        raise BadOption("cap", f"from 1 to {MOST_CAP}", chosen.cap)
    _check_arguments(chosen)
    if chosen.on_crash is OnCrash.FAIL:
        policy = msgspec.structs.replace(decode_policy(chosen.policy), max_crashes=1)
        return msgspec.structs.replace(chosen, policy=encode_policy(policy))
    decode_policy(chosen.policy)
    return chosen


def _check_arguments(chosen: Definition) -> None:
    try:
        given = msgspec.json.decode(chosen.args)
    except msgspec.DecodeError as error:
        raise BadOption("args", f"a JSON object ({error})", chosen.args) from None
    if not isinstance(given, dict):
        raise BadOption("args", "a JSON object", chosen.args)
    if chosen.scope_as is not None and chosen.scopes is None:
        raise BadOption("scope_as", "given together with scopes=…", chosen.scope_as)


def _arguments(task: str, signature: Signature, chosen: ScheduleOptions) -> str:
    """The arguments as JSON, checked as a call of the task with the scope and plan time in it."""
    filled = {"scope_as": "scope", "plan_as": SOMEWHEN}
    taken = {str(chosen.get(key)): value for key, value in filled.items() if chosen.get(key)}
    try:
        text = _call(signature, chosen.get("args", ()), taken)
        signature.check(text)
    except BadArguments:
        raise
    except (HoldfastError, msgspec.DecodeError) as error:
        raise BadArguments(task, f"the arguments of its schedule: {error}") from error
    call: dict[str, Any] = msgspec.json.decode(text)
    kept = {name: value for name, value in call.items() if name not in taken}
    return msgspec.json.encode(kept).decode()


def _call(
    signature: Signature, given: tuple[Any, ...] | Mapping[str, Any] | str, taken: dict[str, Any]
) -> str:
    """Values as a program has them, or JSON text as a command line gives it."""
    match given:
        case str():
            return msgspec.json.encode(msgspec.json.decode(given, type=dict) | taken).decode()
        case Mapping():
            return signature.encode((), {**given, **taken})
        case _:
            return signature.encode(tuple(given), taken)


def _deadline(options: Options) -> float | None:
    if isinstance(options.deadline, datetime):
        raise BadOption("deadline", "seconds from the start of a plan's job", options.deadline)
    return None if options.deadline is None else seconds(options.deadline)


def _choice(kind: type[E], option: str, given: str) -> E:
    try:
        return kind(given)
    except ValueError:
        raise BadOption(option, f"one of {', '.join(kind)}", given) from None


def _require_seconds(option: str, value: float | timedelta, *, zero: bool = False) -> None:
    if not 0 <= seconds(value) < 36_500 * DAY or (seconds(value) == 0 and not zero):
        least = "0 seconds or more" if zero else "more than 0 seconds"
        raise BadOption(option, f"{least}, less than 100 years", value)
