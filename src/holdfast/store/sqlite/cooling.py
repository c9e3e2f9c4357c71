"""A queue, or a bucket, cools down after a throttle."""

from __future__ import annotations

from holdfast.store.contract.queues import QueueSettings
from holdfast.store.sqlite.rows import SECOND, after
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction

FORGIVEN_AFTER = 120 * SECOND
"""A throttle that comes later than this after the end of a window counts from one again."""
MOST_DOUBLINGS = 500
"""2.0 to a higher power than about a thousand is no float any more."""


def cool(tx: Transaction, queue: str, hint: float) -> None:
    """Let a queue cool down; only the first throttle of a window raises its count."""
    sql = steps("parts/cool")
    tx.run(sql["ensure"], (queue,))
    [(until, count, text)] = tx.rows(sql["read"], (queue,))
    until, count = window(until, count, hint, tx.now, QueueSettings.from_json(text))
    tx.run(sql["cool"], (until, count, queue))


def window(
    until: int | None, count: int, hint: float, now: int, settings: QueueSettings
) -> tuple[int, int]:
    """Until when nothing is given after one more throttle, and how many throttles count."""
    if until is not None and until > now:
        return max(until, after(now, hint)), count
    lately = until is not None and now <= until + FORGIVEN_AFTER
    count = count + 1 if lately else 1
    doubled = settings.throttle_base * 2.0 ** min(count - 1, MOST_DOUBLINGS)
    return after(now, max(hint, min(doubled, settings.throttle_cap))), count
