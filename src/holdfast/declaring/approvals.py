"""`flow.approval(…)`: a node that asks people, as it is written down."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.declaring.undoing import task_of_one
from holdfast.errors import BadOption
from holdfast.flow.approving import ESCALATED, ApprovalPlan, Tier
from holdfast.job import checks
from holdfast.job.signal import LONGEST_NAME
from holdfast.job.vote import MOST_PEOPLE
from holdfast.task import Task

TAKES = "a task of this program that takes whom to ask, and needs nothing more"
_encoder = msgspec.json.Encoder()


def approval_args(
    name: str,
    of: Iterable[str],
    need: int | None,
    timeout: float | timedelta | None,
    escalate_to: Iterable[str],
    tell: Task[..., Any] | None,
) -> str:
    """The arguments of the job that asks, as JSON."""
    first, others = _people("of", of), _people("escalate_to", escalate_to)
    wanted = len(first) if need is None else checks.count("need", need)
    if not 1 <= wanted <= len(first):
        raise BadOption("need", f"between 1 and {len(first)}, the number of people", need)
    if others and timeout is None:
        raise BadOption("timeout", "given with escalate_to: it says when others are asked", None)
    tiers = [Tier(checks.text("name", name, LONGEST_NAME // 2), first, wanted)]
    if others:
        tiers.append(Tier(f"{name} {ESCALATED}", others, 1))
    plan = ApprovalPlan(
        tuple(tiers),
        None if timeout is None else checks.wait("timeout", timeout),
        None if tell is None else task_of_one("tell", TAKES, tell),
    )
    return _encoder.encode({"plan": plan}).decode()


def _people(word: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadOption(word, "names of people, such as ['ann', 'bob']", given)
    people = tuple(checks.text("the name of a person", who, LONGEST_NAME // 2) for who in given)
    if len(people) > MOST_PEOPLE or (word == "of" and not people):
        raise BadOption(word, f"1 to {MOST_PEOPLE} people", len(people))
    if len(set(people)) < len(people):
        raise BadOption(word, "each person once", ", ".join(people))
    return people
