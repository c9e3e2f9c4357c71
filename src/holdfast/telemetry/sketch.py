"""How often times of every length occurred, so that any two of these can be added.

A percentile of each minute says nothing about the hour: percentiles cannot be added up. Counts in
buckets can. A bucket is 4.4% wide, so a percentile read from them is at most 2.2% wrong, however
many sketches were merged. A sixteenth of an octave is a bucket: these are the buckets of an
exponential histogram of OpenTelemetry with scale 4, and of a native histogram of Prometheus with
schema 4. The upper bound of a bucket belongs to it.

Everything here is pure, and knows nothing of Holdfast.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from math import ceil, frexp, ldexp, sqrt
from operator import add

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
BUCKETS = 688
_MICROS = 1_000_000


class Sketch:
    """Counts of times by bucket, and their exact sum in microseconds. Merging only adds whole
    numbers, so neither order nor grouping changes the result.

    The counts of all buckets from the first one to the last one that is not empty lie side by side,
    as times do: so two sketches are merged without looking at single buckets."""

    __slots__ = ("_counts", "_first", "micros")

    def __init__(self, first: int = 0, counts: list[int] | None = None, micros: int = 0) -> None:
        """`counts` begin with the bucket `first`."""
        self._first = first
        self._counts: list[int] = [] if counts is None else counts
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
        bucket = _bucket_of(seconds)
        self._reach(bucket, bucket)
        self._counts[bucket - self._first] += weight
        self.micros += int(seconds * _MICROS + 0.5) * weight

    def observe_all(self, times: Collection[float], weight: int = 1) -> None:
        """Count each of these times so often. It is much cheaper than to count them one by one:
        sorted, the times of one bucket lie side by side."""
        if not times:
            return
        ordered = sorted(times)
        if not SHORTEST <= ordered[0] <= ordered[-1] <= LONGEST:
            ordered = [min(max(SHORTEST, seconds), LONGEST) for seconds in ordered]
        self._reach(_bucket_of(ordered[0]), _bucket_of(ordered[-1]))
        at = 0
        while at < len(ordered):
            bucket = _bucket_of(ordered[at])
            end = bisect_right(ordered, upper_bound(bucket), at)
            self._counts[bucket - self._first] += (end - at) * weight
            at = end
        self.micros += sum([int(seconds * _MICROS + 0.5) for seconds in ordered]) * weight

    def merge(self, other: Sketch) -> None:
        self.micros += other.micros
        added = other._counts
        if not self._counts:
            self._first, self._counts = other._first, added.copy()
        elif added:
            self._reach(other._first, other._first + len(added) - 1)
            at = other._first - self._first
            end = at + len(added)
            self._counts[at:end] = map(add, self._counts[at:end], added)

    def _reach(self, first: int, last: int) -> None:
        """Have counts from the one bucket to the other, at least."""
        counts = self._counts
        if not counts:
            self._first = first
        elif first < self._first:
            counts[:0] = [0] * (self._first - first)
            self._first = first
        if (missing := last - self._first - len(counts) + 1) > 0:
            counts += [0] * missing

    @property
    def buckets(self) -> dict[int, int]:
        """The counts of the buckets that are not empty, in their order."""
        return {bucket: count for bucket, count in enumerate(self._counts, self._first) if count}

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def seconds(self) -> float:
        """All times together."""
        return self.micros / _MICROS

    def quantile(self, share: float) -> float | None:
        """The time that this share of all times does not exceed; None if there are none. It is
        the middle of a bucket."""
        wanted = max(1, ceil(share * self.count))
        for bucket, below in enumerate(accumulate(self._counts), self._first):
            if below >= wanted:
                return sqrt(upper_bound(bucket - 1) * upper_bound(bucket))
        return None

    def up_to(self, bounds: Sequence[float]) -> list[int]:
        """How many times were at most as long as each of these bounds, which ascend. It is exact if
        the bounds are bounds of buckets, as powers of two are."""
        buckets = self.buckets
        counts = [0, *accumulate(buckets.values())]
        uppers = [upper_bound(bucket) for bucket in buckets]
        return [counts[_at_most(uppers, bound)] for bound in bounds]

    def encoded(self) -> list[int]:
        """The sum, then for each bucket that is not empty how far it is from the one before, and
        its count. Or the counts as they lie, which is read and written faster, unless that would be
        more than twice as long: the first of them is negative then. Small numbers: most take one
        byte as MessagePack."""
        width = len(self._counts)
        if width and 4 * (width - self._counts.count(0)) > width:
            return [self.micros, FIRST - self._first - 1, *self._counts]
        flat, last = [self.micros], FIRST
        for bucket, count in self.buckets.items():
            flat += (bucket - last, count)
            last = bucket
        return flat

    @classmethod
    def decoded(cls, flat: Sequence[int]) -> Sketch:
        """Raises `ValueError` if something else than a sketch was written."""
        micros, *rest = flat
        if not rest:
            return cls(micros=micros)
        if rest[0] < 0:
            return cls(FIRST - rest[0] - 1, rest[1:], micros)
        places = [*accumulate(rest[2::2], initial=0)]
        if not 0 <= places[-1] < BUCKETS:
            raise ValueError(f"a sketch has {BUCKETS} buckets, not {places[-1] + 1}")
        counts = [0] * (places[-1] + 1)
        for place, count in zip(places, rest[1::2], strict=True):
            counts[place] = count
        return cls(FIRST + rest[0], counts, micros)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        return (self.buckets, self.micros) == (other.buckets, other.micros)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Sketch({self._first}, {self._counts}, {self.micros})"


def _bucket_of(seconds: float) -> int:
    fraction, exponent = frexp(seconds)
    return bisect_left(BOUNDS, fraction) + 16 * exponent - 16


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
