"""Checks a Definition, whoever made it: a decorator, a command or the edit of an operator. Nothing
is stored before every part is valid."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from holdfast.enqueue.options import seconds
from holdfast.errors import BadOption, Unreadable
from holdfast.job.checks import check_name
from holdfast.job.policy import DAY, Policy, decode_policy, encode_policy
from holdfast.schedule.model import Definition, OnCrash
from holdfast.schedule.rule import times_of

MOST_CAP = 10_000


def checked(definition: Definition) -> Definition:
    """The definition, with the effect of its `on_crash` on the policy. Raises BadOption if any part
    of it is invalid."""
    chosen = _typed(definition)
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
        policy = msgspec.structs.replace(_policy(chosen), max_crashes=1)
        return msgspec.structs.replace(chosen, policy=encode_policy(policy))
    _policy(chosen)
    return chosen


def _typed(definition: Definition) -> Definition:
    """The definition as a store would give it back, every field of its declared type."""
    try:
        return msgspec.convert(_plain(definition), Definition)
    except msgspec.ValidationError as error:
        raise _of_wrong_type(error, definition) from None


def _plain(definition: Definition) -> dict[str, Any]:
    for option, value in msgspec.structs.asdict(definition).items():
        try:
            msgspec.json.encode(value)
        except (TypeError, UnicodeEncodeError) as error:  # what JSON has no form for
            raise BadOption(option, f"of the right type ({error})", value) from None
    plain: dict[str, Any] = msgspec.to_builtins(definition)
    return plain


def _policy(definition: Definition) -> Policy:
    try:
        return decode_policy(definition.policy)
    except Unreadable as error:
        raise BadOption("policy", f"one that can be read ({error})", definition.policy) from None


def _of_wrong_type(error: msgspec.ValidationError, given: object) -> BadOption:
    """msgspec names the place as `$.cap`; the first name in it is the option."""
    message, _, place = str(error).partition(" - at `$.")
    option = place.rstrip("`").partition(".")[0] or "schedule"
    return BadOption(option, f"of the right type ({message})", getattr(given, option, given))


def _check_arguments(chosen: Definition) -> None:
    try:
        given = msgspec.json.decode(chosen.args)
    except msgspec.DecodeError as error:
        raise BadOption("args", f"a JSON object ({error})", chosen.args) from None
    if not isinstance(given, dict):
        raise BadOption("args", "a JSON object", chosen.args)
    if chosen.scope_as is not None and chosen.scopes is None:
        raise BadOption("scope_as", "given together with scopes=…", chosen.scope_as)


def _require_seconds(option: str, value: float | timedelta, *, zero: bool = False) -> None:
    if not 0 <= seconds(value) < 36_500 * DAY or (seconds(value) == 0 and not zero):
        least = "0 seconds or more" if zero else "more than 0 seconds"
        raise BadOption(option, f"{least}, less than 100 years", value)
