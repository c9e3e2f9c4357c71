"""Bounds that hold for every curve."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.job.retry import Retry
from tests.properties.ends import retries

failures = st.integers(1, 100_000)
uniform = st.floats(0, 1, exclude_max=True)


@given(retries, failures, uniform)
def test_a_wait_lies_between_the_curve_and_the_curve_with_all_its_jitter(
    retry: Retry, failures: int, chance: float
) -> None:
    plain = retry.delay(failures, lambda: 0.0)
    wait = retry.delay(failures, lambda: chance)
    assert plain <= wait <= plain * (1 + retry.jitter)


@given(retries, failures)
def test_no_wait_is_longer_than_the_cap_and_its_jitter(retry: Retry, failures: int) -> None:
    assert 0 <= retry.delay(failures) <= retry.cap * (1 + retry.jitter)


@given(retries.filter(lambda retry: retry.curve != "custom"), failures)
def test_waits_never_shrink(retry: Retry, failures: int) -> None:
    assert retry.delay(failures, lambda: 0.5) <= retry.delay(failures + 1, lambda: 0.5)


@given(retries)
def test_a_retry_survives_json(retry: Retry) -> None:
    assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry
