"""How often times of every length occurred, so that any two of these can be added.

A percentile of each minute says nothing about the hour: percentiles cannot be added up. Counts in
buckets can. A bucket is 4.4% wide, so a percentile read from them is at most 2.2% wrong, however
many sketches were merged. A sixteenth of an octave is a bucket: these are the buckets of an
exponential histogram of OpenTelemetry with scale 4, and of a native histogram of Prometheus with
schema 4. The upper bound of a bucket belongs to it.

Everything here is pure, and knows nothing of Holdfast.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import ceil, frexp, ldexp, sqrt

SHORTEST = 1e-6
LONGEST = 100 * 86_400.0
"""Seconds. What is shorter or longer is counted as this short or long."""

BOUNDS = (
    0.5, 0.5221368912137069, 0.5452538663326288, 0.5693943173783458,
    0.5946035575013605, 0.620928906036742, 0.6484197773255048, 0.6771277734684463,
    0.7071067811865475, 0.7384130729697496, 0.7711054127039704, 0.805245165974627,
    0.8408964152537144, 0.8781260801866495, 0.9170040432046711, 0.9576032806985735,
)  # fmt: skip
"""The bounds of the buckets between a half and one, with the bits that Prometheus gives them: some
differ in the last bit from the nearest number."""

FIRST = -318
"""The bucket of the shortest time, as Prometheus numbers buckets. OpenTelemetry's number is one
less."""
_MICROS = 1_000_000


class Sketch:
    """Counts of times by bucket, and their exact sum in microseconds. Merging only adds whole
    numbers, so neither order nor grouping changes the result."""

    __slots__ = ("buckets", "micros")

    def __init__(self, buckets: dict[int, int] | None = None, micros: int = 0) -> None:
        self.buckets: dict[int, int] = {} if buckets is None else buckets
        self.micros = micros

    @classmethod
    def of(cls, times: Iterable[float]) -> Sketch:
        sketch = cls()
        for seconds in times:
            sketch.observe(seconds)
        return sketch

    def observe(self, seconds: float, weight: int = 1) -> None:
        """Count one time, or as many as `weight` says."""
        if not SHORTEST <= seconds <= LONGEST:
            seconds = SHORTEST if seconds < SHORTEST else LONGEST
        fraction, exponent = frexp(seconds)
        bucket = bisect_left(BOUNDS, fraction) + 16 * exponent - 16
        buckets = self.buckets
        buckets[bucket] = buckets.get(bucket, 0) + weight
        self.micros += int(seconds * _MICROS + 0.5) * weight

    def merge(self, other: Sketch) -> None:
        buckets = self.buckets
        for bucket, count in other.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
        self.micros += other.micros

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    @property
    def seconds(self) -> float:
        """All times together."""
        return self.micros / _MICROS

    def quantile(self, share: float) -> float | None:
        """The time that this share of all times does not exceed; None if there are none. It is
        the middle of a bucket."""
        wanted = max(1, ceil(share * self.count))
        below = 0
        for bucket in sorted(self.buckets):
            below += self.buckets[bucket]
            if below >= wanted:
                return sqrt(upper_bound(bucket - 1) * upper_bound(bucket))
        return None

    def up_to(self, bounds: Sequence[float]) -> list[int]:
        """How many times were at most as long as each of these bounds, which ascend. It is exact if
        the bounds are bounds of buckets, as powers of two are."""
        ordered = sorted(self.buckets)
        counts = [0, *accumulate(self.buckets[bucket] for bucket in ordered)]
        uppers = [upper_bound(bucket) for bucket in ordered]
        return [counts[_at_most(uppers, bound)] for bound in bounds]

    def encoded(self) -> list[int]:
        """The sum, then for each bucket how far it is from the one before, and its count. Small
        numbers: most take one byte as MessagePack."""
        flat, last = [self.micros], FIRST
        for bucket in sorted(self.buckets):
            flat += (bucket - last, self.buckets[bucket])
            last = bucket
        return flat

    @classmethod
    def decoded(cls, flat: Sequence[int]) -> Sketch:
        micros, *rest = flat
        buckets = accumulate(rest[::2], initial=FIRST)
        next(buckets)
        return cls(dict(zip(buckets, rest[1::2], strict=True)), micros)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        return (self.buckets, self.micros) == (other.buckets, other.micros)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Sketch({self.buckets}, {self.micros})"


def upper_bound(bucket: int) -> float:
    """The longest time that belongs to a bucket.

    >>> upper_bound(0), upper_bound(16), upper_bound(-32)
    (1.0, 2.0, 0.25)
    """
    octave, at = divmod(bucket, 16)
    return ldexp(BOUNDS[at], octave + 1)


def _at_most(uppers: Sequence[float], bound: float) -> int:
    found = bisect_left(uppers, bound)
    return found + (found < len(uppers) and uppers[found] == bound)
