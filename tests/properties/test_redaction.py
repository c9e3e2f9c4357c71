"""Whatever a job holds: redaction never raises, keeps the shape, and hides what it must."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.job.redaction import UNKNOWN, Redactor, Rules, redact, redact_value
from holdfast.job.secret import is_secret_name

NAMES = st.sampled_from(
    ("to", "n", "monkey", "a", "customer", "password", "apiKey", "x-api-key", "tokens", "Cookie")
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)
CALLS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.lists(
    st.lists(st.sampled_from(("to", "n", "a", "customer", "*", "**")), min_size=1, max_size=4).map(
        tuple
    ),
    max_size=3,
)
RULES = PATHS.map(lambda paths: Rules(tuple(paths))) | st.just(UNKNOWN)


@given(RULES, st.text(), st.text() | st.none(), st.text())
def test_no_stored_text_makes_it_raise(
    rules: Rules, args: str, headers: str | None, text: str
) -> None:
    redactor = Redactor(rules, args, headers)
    for told in (redactor.args(), redactor.headers() or "null", redactor.result(text)):
        json.loads(told)
    redactor.text(text)


@given(RULES, CALLS)
def test_it_is_json_again_and_redacting_it_again_changes_nothing(
    rules: Rules, call: dict[str, Any]
) -> None:
    once = Redactor(rules, json.dumps(call)).args()
    assert Redactor(rules, once).args() == once
    assert json.loads(once).keys() == call.keys()


@given(PATHS, CALLS)
def test_only_values_are_replaced_and_every_secret_name_is_hidden(
    paths: list[tuple[str, ...]], call: dict[str, Any]
) -> None:
    told = json.loads(Redactor(Rules(tuple(paths)), json.dumps(call)).args())
    _same_shape(call, told)


def _same_shape(stored: Any, told: Any) -> None:
    match stored:
        case _ if told == "***":
            return  # hidden, by a name or a path
        case dict():
            assert list(told) == list(stored)
            for name, value in stored.items():
                assert told[name] == "***" or not is_secret_name(name)
                _same_shape(value, told[name])
        case list():
            assert len(told) == len(stored)
            for one, other in zip(stored, told, strict=True):
                _same_shape(one, other)
        case str():
            assert told == redact(stored)
        case _:
            assert told == stored


@given(st.dictionaries(st.sampled_from(("password", "to")), VALUES, min_size=2), st.data())
def test_a_text_never_repeats_a_hidden_text(call: dict[str, Any], data: st.DataObject) -> None:
    secret = data.draw(st.text("abcXYZ'\"\\/ ßé\n%", min_size=8, max_size=40).filter(str.strip))
    call["password"] = {"deep": [secret]}
    redactor = Redactor(Rules(), json.dumps(call))
    for form in (secret, repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        told = redactor.text(f"before {form} behind")
        assert secret not in told
        assert form[1:-1] not in told or form == secret
        assert redactor.text(told) == told


@given(VALUES)
def test_values_of_python_are_hidden_as_json_is(value: Any) -> None:
    told = redact_value({"value": value})
    assert redact_value(told) == told
    _same_shape({"value": value}, told)


@given(st.text())
def test_redacting_a_text_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)
