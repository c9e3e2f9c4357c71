"""The line of a call is the same whether its key is met for the first time or again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.codec.signature import Signature
from holdfast.enqueue.maker import JobMaker
from holdfast.enqueue.options import JobOptions
from holdfast.errors import BadArguments, BadOption
from holdfast.job.line_rule import LineRule, Passing
from holdfast.job.passing import Passed, checked_key, joined
from holdfast.job.ties import Tie

NOTHING: Any = None
BY_KEY = Passing("tenant", "key")
RULES = {
    "one argument": LineRule((BY_KEY,)),
    "no key": LineRule((Passing("tenant"),)),
    "a template": LineRule((Passing("tenant", "{key}-{other}"),)),
    "a path": LineRule((Passing("tenant", "key", is_path=True),)),
    "a cost": LineRule((Passing("tenant", "key", cost=3),)),
    "a cost of the call": LineRule((BY_KEY,), cost={"tenant": 2}),
    "a cost by an argument": LineRule((Passing("tenant", "key", cost="other"),)),
    "two limits": LineRule((BY_KEY, Passing("github"))),
    "fairness": LineRule((BY_KEY,), fair="other"),
    "labels": LineRule((BY_KEY,), requires=("gpu",)),
    "nothing": LineRule(),
}
KEYS: list[Any] = ["a", "a/b", "ä", 7, "7", True, None, "", "\n", "x" * 201, "a"]
CALLS: list[dict[str, Any]] = [{"key": key, "other": 5} for key in KEYS] + [
    {},
    {"key": "a", "other": 1},
    {"key": "a", "other": 5},
]


def by_text(key: str = "all", other: int = 5) -> None: ...
def by_text_or_none(key: str = NOTHING, other: int = 5) -> None: ...
def by_number(key: int = 7, other: int = 5) -> None: ...
def by_anything(key: Any = "all", other: int = 5) -> None: ...


def said(find: Callable[..., Any], *given: object) -> Any:
    try:
        return find(*given)
    except (BadOption, BadArguments) as error:
        return str(error)


def remembered(rule: LineRule, signature: Signature) -> Callable[[str], Passed]:
    """The line of the job that is made of a call."""
    options = JobOptions(
        limits=rule.limits,
        cost=rule.cost,
        fair=rule.fair,
        weight=3,
        requires=frozenset(rule.requires),
    )
    maker = JobMaker("t", options, signature)

    def line_of(text: str) -> Passed:
        job = maker.make(text)
        assert (job.ties, job.blocked, job.weight) == (
            (Tie.PERMITS, False, 3) if rule else (0, False, 1)
        )
        return Passed(job.buckets, job.costs)

    return line_of


@pytest.mark.parametrize("handler", [by_text, by_text_or_none, by_number, by_anything])
@pytest.mark.parametrize("rule", RULES)
def test_a_call_stands_in_the_line_that_its_rule_says(
    rule: str, handler: Callable[..., Any]
) -> None:
    signature = Signature.of(handler)
    line_of = remembered(RULES[rule], signature)
    for call in CALLS + CALLS:
        text = json.dumps(call)
        try:
            whole = signature.completed(text)
        except BadArguments:
            continue  # no job is made of it
        assert said(line_of, text) == said(RULES[rule].passed, "t", whole)


def test_a_line_of_one_argument_is_named_by_it() -> None:
    rule = LineRule((BY_KEY,))
    assert rule.passed("t", {"key": "a"}) == ("tenant:a", None)
    assert "text or a whole number" in said(rule.passed, "t", {})


def test_a_key_that_is_too_long_is_named_by_what_it_is_for() -> None:
    with pytest.raises(BadOption, match=r"key of limit 'tenant' must be at most 200"):
        joined(["tenant:" + checked_key("tenant", "x" * 201)])
    with pytest.raises(BadOption, match=r"key of fairness \(fair=\) must be at most 200"):
        joined([], fair="x" * 201)
