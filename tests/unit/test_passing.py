"""The line of a call is the same whether it is asked for once or for many calls of a task."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import BadOption
from holdfast.job.passing import LineRule, Passed, Passing

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
CALLS: list[dict[str, Any]] = [
    {"key": key, "other": 5}
    for key in ("a", "a/b", "ä", 7, True, None, "", "\n", "x" * 201, "\ud800")
] + [{}]


def said(find: Any, *given: object) -> Passed | str:
    try:
        found: Passed = find(*given)
    except BadOption as error:
        return str(error)
    return found


@pytest.mark.parametrize("rule", RULES)
def test_a_finder_says_of_each_call_what_its_rule_says(rule: str) -> None:
    finder = RULES[rule].finder("t")
    for call in CALLS:
        assert said(finder, call) == said(RULES[rule].passed, "t", call)


def test_a_line_of_one_argument_is_named_by_it() -> None:
    finder = LineRule((BY_KEY,)).finder("t")
    assert finder({"key": "a"}) == ("tenant:a", None)
    assert "text or a whole number" in str(said(finder, {}))
