"""retry.py: curves of waiting, as data."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from holdfast.errors import BadOption
from holdfast.job.checks import LONGEST_WAIT
from holdfast.job.retry import Retry


def waits(retry: Retry, count: int = 5) -> list[float]:
    return [retry.delay(failures) for failures in range(1, count + 1)]


def test_an_exponential_curve_doubles_up_to_its_cap() -> None:
    assert waits(Retry(base=3, cap=20, jitter=0)) == [3, 6, 12, 20, 20]


def test_a_linear_curve_adds_up_to_its_cap() -> None:
    assert waits(Retry.linear(base=3, cap=10, jitter=0)) == [3, 6, 9, 10, 10]


def test_a_constant_curve_stays() -> None:
    assert waits(Retry.constant(base=3, jitter=0)) == [3, 3, 3, 3, 3]


def test_a_custom_curve_is_followed_and_its_last_wait_repeats() -> None:
    assert waits(Retry.custom([1, 5, 2], jitter=0)) == [1, 5, 2, 2, 2]


def test_a_custom_curve_has_one_attempt_more_than_waits() -> None:
    assert Retry.custom([1, 5, 2]).max_attempts == 4
    assert Retry.custom([1, 5, 2], max_attempts=9).max_attempts == 9


def test_never_means_one_attempt() -> None:
    assert Retry.never().max_attempts == 1


def test_there_is_jitter_unless_it_is_turned_off() -> None:
    herd = {Retry(base=10).delay(1) for _ in range(50)}
    assert len(herd) > 1


def test_jitter_only_ever_adds() -> None:
    retry = Retry.constant(base=10, jitter=0.5)
    assert retry.delay(1, lambda: 0.0) == 10
    assert retry.delay(1, lambda: 1.0) == 15


def test_a_thousand_failures_do_not_overflow() -> None:
    assert Retry(max_attempts=10_000, base=1, cap=60, jitter=0).delay(5_000) == 60


def test_no_failures_wait_like_one() -> None:
    assert Retry(base=7, jitter=0).delay(0) == 7


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"base": -1}, "retry.base"),
        ({"base": math.inf}, "retry.base"),
        ({"base": math.nan}, "retry.base"),
        ({"cap": -1}, "retry.cap"),
        ({"cap": math.nan}, "retry.cap"),
        ({"cap": 2 * LONGEST_WAIT}, "retry.cap"),
        ({"jitter": -0.1}, "retry.jitter"),
        ({"jitter": 1.1}, "retry.jitter"),
        ({"jitter": math.nan}, "retry.jitter"),
        ({"curve": "custom"}, "retry.delays"),
        ({"delays": (1.0,)}, "retry.delays"),
        ({"curve": "custom", "delays": (-1.0,)}, "retry.delays"),
    ],
)
def test_an_option_out_of_range_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        Retry(**options)


def test_it_survives_json() -> None:
    retry = Retry.custom([1, 2.5], max_attempts=7, jitter=0.1)
    assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry
