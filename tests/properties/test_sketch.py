"""Sketches: merging them is exact, reading them is at most 2.2% wrong, and their buckets are those
of OpenTelemetry and Prometheus."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics._internal.exponential_histogram.mapping.logarithm_mapping import (
    LogarithmMapping,
)

from holdfast.telemetry.sketch import BUCKETS, FIRST, LONGEST, SHORTEST, Sketch, upper_bound

ERROR = 0.022
LAST = 369

times = st.floats(SHORTEST, LONGEST)
some_times = st.lists(times, max_size=60)
anything = st.floats(allow_nan=False)


def merged(*sketches: Sketch) -> Sketch:
    whole = Sketch()
    for sketch in sketches:
        whole.merge(sketch)
    return whole


@given(some_times, some_times, some_times)
def test_sketches_may_be_merged_in_any_order_and_grouping(
    one: list[float], two: list[float], three: list[float]
) -> None:
    a, b, c = map(Sketch.of, (one, two, three))
    assert merged(a, merged(b, c)) == merged(merged(a, b), c)
    assert merged(a, b) == merged(b, a)
    assert merged(a, b, c) == Sketch.of([*one, *two, *three])


@given(st.lists(anything, max_size=60), some_times, st.integers(1, 10**6))
def test_times_that_are_counted_together_make_the_same_sketch(
    given_times: list[float], before: list[float], weight: int
) -> None:
    together, one_by_one = Sketch.of(before), Sketch.of(before)
    together.observe_all(given_times, weight)
    for seconds in given_times:
        one_by_one.observe(seconds, weight)
    assert together == one_by_one


def test_what_is_no_sketch_is_refused_before_room_is_made_for_it() -> None:
    assert LAST - FIRST + 1 == BUCKETS
    widest = Sketch.of([SHORTEST, LONGEST])
    assert Sketch.decoded(widest.encoded()) == widest
    for flat in ([1, 0, 1, BUCKETS, 1], [1, 0, 1, 10**15, 1], [1, 0, 1, 5]):
        with pytest.raises(ValueError, match=r"buckets|shorter|longer"):
            Sketch.decoded(flat)


@given(some_times)
def test_a_merged_sketch_is_left_as_it_was(given_times: list[float]) -> None:
    sketch = Sketch.of(given_times)
    merged(sketch, Sketch.of([1.0]))
    assert sketch == Sketch.of(given_times)


@given(some_times, st.integers(1, 10**9))
def test_a_sketch_can_be_written_and_read(given_times: list[float], weight: int) -> None:
    sketch = Sketch.of(given_times)
    sketch.observe(1.5, weight)
    text = msgspec.msgpack.encode(sketch.encoded())
    assert Sketch.decoded(msgspec.msgpack.decode(text, type=list[int])) == sketch


def test_an_empty_sketch_can_be_written_and_read() -> None:
    assert Sketch.decoded(Sketch().encoded()) == Sketch()
    assert (Sketch().quantile(0.5), Sketch().count) == (None, 0)


DISTRIBUTIONS: dict[str, Callable[[random.Random], float]] = {
    "uniform": lambda chance: chance.uniform(0.001, 10),
    "exponential": lambda chance: chance.expovariate(20),
    "log-normal": lambda chance: chance.lognormvariate(-3, 2),
    "pareto": lambda chance: 0.001 * chance.paretovariate(0.8),
    "two humps": lambda chance: abs(chance.gauss(0.002 if chance.random() < 0.9 else 60, 0.0004)),
    "all alike": lambda chance: 0.25,
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_percentile_is_at_most_two_percent_wrong_even_after_merging(name: str) -> None:
    chance = random.Random(7)
    minutes = [[DISTRIBUTIONS[name](chance) for _ in range(200)] for _ in range(30)]
    whole = merged(*map(Sketch.of, minutes))
    every = sorted(seconds for minute in minutes for seconds in minute)
    for share in (0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0):
        true = every[max(1, math.ceil(share * len(every))) - 1]
        told = whole.quantile(share)
        assert told == pytest.approx(true, rel=ERROR)
    assert whole.count == len(every)
    assert whole.seconds == pytest.approx(sum(every), abs=1e-6 * len(every))


@given(times)
def test_a_time_lies_in_its_bucket(seconds: float) -> None:
    [bucket] = Sketch.of([seconds]).buckets
    assert upper_bound(bucket - 1) < seconds <= upper_bound(bucket)
    assert FIRST <= bucket <= LAST


@given(times)
def test_a_bucket_is_the_one_of_opentelemetry_and_prometheus(seconds: float) -> None:
    """Scale 4 and schema 4. Their numbers are apart by one: OpenTelemetry numbers a bucket by its
    lower bound, Prometheus by its upper one. Some of Prometheus's bounds are the last bit off, and
    OpenTelemetry computes a logarithm: who lies that near to a bound may be on either side."""
    [bucket] = Sketch.of([seconds]).buckets
    near = (upper_bound(bucket - 1), upper_bound(bucket))
    assume(all(abs(seconds - bound) > 1e-14 * bound for bound in near))
    assert bucket == LogarithmMapping(4).map_to_index(seconds) + 1
    exact = Fraction(seconds) ** 16
    assert Fraction(2) ** (bucket - 1) < exact <= Fraction(2) ** bucket


@pytest.mark.parametrize("exponent", range(-19, 24))
def test_a_power_of_two_is_the_upper_bound_of_its_bucket(exponent: int) -> None:
    seconds = 2.0**exponent
    [bucket] = Sketch.of([seconds]).buckets
    assert bucket == 16 * exponent == LogarithmMapping(4).map_to_index(seconds) + 1
    assert upper_bound(bucket) == seconds
    [above] = Sketch.of([math.nextafter(seconds, math.inf)]).buckets
    assert above == bucket + 1


@given(anything)
def test_what_is_too_short_or_too_long_is_counted_at_the_end(seconds: float) -> None:
    sketch = Sketch.of([seconds])
    assert sketch.count == 1
    assert FIRST <= min(sketch.buckets) <= LAST
    assert 1 <= sketch.micros <= LONGEST * 1_000_000


@given(some_times)
def test_classic_buckets_are_exact_at_powers_of_two(given_times: list[float]) -> None:
    bounds = [2.0**exponent for exponent in range(-10, 17, 2)]
    expected = [sum(seconds <= bound for seconds in given_times) for bound in bounds]
    assert Sketch.of(given_times).up_to(bounds) == expected


def test_a_weight_stands_for_so_many_times() -> None:
    one, many = Sketch(), Sketch.of([0.3] * 7)
    one.observe(0.3, 7)
    assert one == many


def test_the_times_of_a_busy_minute_fit_into_a_few_hundred_bytes() -> None:
    chance = random.Random(1)
    sketch = Sketch.of(chance.lognormvariate(-3, 1) for _ in range(600))
    assert len(msgspec.msgpack.encode(sketch.encoded())) < 300
