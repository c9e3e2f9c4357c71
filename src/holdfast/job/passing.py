"""The buckets that a job passes, and what it costs in each, as texts.

A *bucket* is one limit at one key. Its name is `limit:key`, and `limit:` for a limit without keys.
The buckets of a job are fixed when it is enqueued (`line_rule.py`), and travel as one text
(`NewJob.buckets`): their names in order, one a line. The same text names the labels that a worker
must have, each as `+label`, and the key of fairness, as `=key`. Jobs of one queue, priority and
task with the same text stand in one line. What a job costs in each of its buckets is a second text
(`NewJob.costs`): jobs of one line may cost differently. A job that costs more than a bucket ever
lets pass stands aside: stores put it in a line whose text ends with its costs, as `!costs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from holdfast.errors import BadOption
from holdfast.job import checks

LIMIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
LONGEST_KEY = 200
DEEPEST_PATH = 8
MOST_UNITS = 10**15
"""What a limit may let pass, a job may cost, and a handler may take or report at once. Every store
counts sums of them in whole numbers up to `MOST_COUNTED`."""
MOST_COUNTED = 2**53 - 1
"""What is spent counts up to here, and not further: so far floating point has all whole numbers."""
MOST_WEIGHT = 1000
QUEUE_LIMIT = "queue"
"""The limit whose buckets count the running jobs of whole queues. No other may have its name."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LABEL, _FAIR, _ASIDE = "+", "=", "!"


class Passed(NamedTuple):
    """The line of a job, and what the job costs there; None where it costs 1 in every bucket."""

    buckets: str | None
    costs: str | None = None


def bucket_name(limit: object, key: object = "") -> str:
    if not isinstance(limit, str) or not LIMIT_NAME.match(limit):
        raise BadOption("name of a limit", "1 to 64 letters, digits, '_', '.' or '-'", limit)
    return f"{limit}:{checked_key(limit, key)}"


def require_own_name(name: object) -> None:
    """Limits of users may not be taken for the totals of queues."""
    bucket_name(name)
    if name == QUEUE_LIMIT:
        expected = "another than 'queue', which counts whole queues: pause or tune the queue itself"
        raise BadOption("name of a limit", expected, name)


def require_own_buckets(buckets: Iterable[str]) -> None:
    """Operators of limits may not shut the totals of queues either."""
    for bucket in buckets:
        require_own_name(split_bucket(bucket)[0])


def checked_key(limit: str, key: object) -> str:
    """A key that every store can keep. Takes travel to the store in batches: one that the store
    refuses would fail those of other jobs."""
    if isinstance(key, str) and len(key) <= LONGEST_KEY:
        if key.isascii() and key.isprintable():  # nearly all keys, and sooner known
            return key
        if not CONTROL.search(key) and checks.is_encodable(key):
            return key
    expected = f"at most {LONGEST_KEY} characters of text, none of them a control character"
    whose = "fairness (fair=)" if limit == _FAIR else f"limit {limit!r}"
    raise BadOption(f"key of {whose}", expected, key)


def path_of(bucket: str) -> tuple[str, ...]:
    """The buckets that lead to this one, and itself: for `tokens:a/b` those of `a` and `a/b`."""
    limit, key = split_bucket(bucket)
    parts = key.split("/")
    if len(parts) > DEEPEST_PATH or (key and not all(parts)):
        expected = (
            f"a path such as 'org/team', at most {DEEPEST_PATH} names deep, none of them empty"
        )
        raise BadOption(f"key of limit {limit!r}", expected, key)
    return (*steps_to(bucket), bucket)


def steps_to(bucket: str) -> tuple[str, ...]:
    """The buckets that lead to this one by its path, without a check of the path."""
    parts = bucket.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts)))


def total_name(queue: str) -> str:
    """The bucket that counts all running jobs of a queue."""
    return f"{QUEUE_LIMIT}:{queue}"


def is_total(bucket: str) -> bool:
    return bucket.startswith(f"{QUEUE_LIMIT}:")


def split_bucket(bucket: str) -> tuple[str, str]:
    """The limit and the key of a bucket."""
    limit, _, key = bucket.partition(":")
    return limit, key


def joined(
    buckets: Iterable[str], *, labels: Iterable[str] = (), fair: str | None = None
) -> str | None:
    """The line of a job as one text; None for a job that needs none."""
    lines = sorted(set(buckets))
    lines += sorted({_LABEL + _checked_label(label) for label in labels})
    if fair is not None:
        lines.append(_FAIR + checked_key(_FAIR, fair))
    return "\n".join(lines) or None


def _checked_label(label: object) -> str:
    if isinstance(label, str) and LIMIT_NAME.match(label):
        return label
    raise BadOption("a label", "1 to 64 letters, digits, '_', '.' or '-'", label)


def check_labels(what: str, given: object) -> frozenset[str]:
    """Labels as a task requires them, or as a worker has them."""
    expected = "labels, such as {'gpu', 'eu'}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadOption(what, expected, given)
    return frozenset(_checked_label(label) for label in given)


def joined_costs(units: Mapping[str, int]) -> str | None:
    """Costs by bucket as one text, in the order of the buckets' names; None if all are 1."""
    if all(cost == 1 for cost in units.values()):
        return None
    return ",".join(str(units[bucket]) for bucket in sorted(units))


def parted(buckets: str | None) -> tuple[str, ...]:
    """The buckets of a job from the text of its line."""
    if not buckets:
        return ()
    if _LABEL not in buckets and _FAIR not in buckets and _ASIDE not in buckets:
        return tuple(buckets.split("\n"))
    return tuple(line for line in buckets.split("\n") if line[0] not in (_LABEL, _FAIR, _ASIDE))


@lru_cache(maxsize=1024)
def parted_costs(costs: str) -> tuple[int, ...]:
    """The costs of a job, in the order of its buckets."""
    return tuple(map(int, costs.split(",")))


def costs_in(buckets: str | None, costs: str | None) -> dict[str, int]:
    """What a job costs, by bucket."""
    names = parted(buckets)
    if costs is None:
        return dict.fromkeys(names, 1)
    return dict(zip(names, parted_costs(costs), strict=True))


def with_bucket(buckets: str | None, costs: str | None, added: str) -> Passed:
    """A receipt that names one more bucket, at the cost of one permit."""
    units = costs_in(buckets, costs) | {added: 1}
    return Passed(joined(units), joined_costs(units))


def labels_in(buckets: str | None) -> frozenset[str]:
    """The labels that a worker needs for the jobs of a line."""
    if not buckets or _LABEL not in buckets:
        return frozenset()
    return frozenset(line[1:] for line in buckets.split("\n") if line.startswith(_LABEL))


def fair_in(buckets: str | None) -> str | None:
    """The key of fairness of a line."""
    if not buckets or _FAIR not in buckets:
        return None
    return next((line[1:] for line in buckets.split("\n") if line.startswith(_FAIR)), None)


def aside(buckets: str, costs: str) -> str:
    """The line of jobs that stand aside because of these costs. All of them cost the same, so that
    none of them keeps another one waiting that could begin."""
    return f"{buckets}\n{_ASIDE}{costs}"


def without_aside(buckets: str) -> str:
    """The line that a job has left to stand aside; any other line as it is."""
    return buckets.partition(f"\n{_ASIDE}")[0]


def is_aside(buckets: str) -> bool:
    return f"\n{_ASIDE}" in buckets


def parents_in(names: Sequence[str]) -> frozenset[str]:
    """Those of a job's buckets, which are in order, that lead to others of them."""
    return frozenset(one for one, following in pairwise(names) if following.startswith(one + "/"))


def bucket_of(buckets: str | None, limit: str) -> str:
    """The bucket of this limit that a job passes: the last one of a path. For a job that does not
    pass the limit, the bucket without a key."""
    for bucket in reversed(parted(buckets)):
        if split_bucket(bucket)[0] == limit:
            return bucket
    return bucket_name(limit)
