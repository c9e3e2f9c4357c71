"""The judge of the tests on rates: it must see a window that is exceeded, and no other."""

from __future__ import annotations

from collections import Counter

from tests.support.windows import most_in_a_window


def test_claims_that_lie_wholly_in_a_window_are_counted() -> None:
    assert most_in_a_window(Counter({(0.0, 0.1): 5, (0.9, 1.0): 5}), 1.0) == 10
    assert most_in_a_window(Counter({(0.0, 0.1): 5, (0.95, 1.05): 5}), 1.0) == 5
    assert most_in_a_window(Counter({(0.0, 0.1): 5, (1.2, 1.3): 7}), 1.0) == 7


def test_a_limit_of_each_process_shows() -> None:
    """Four processes with a rate of their own are four times too fast."""
    each = Counter({(0.01 * process, 0.01 * process + 0.005): 100 for process in range(4)})
    assert most_in_a_window(each, 1.0) == 400
