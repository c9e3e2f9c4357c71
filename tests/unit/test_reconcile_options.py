"""Settings of reconcilers are checked when they are made."""

from __future__ import annotations

import pytest

from holdfast.background.options import ReconcileOptions
from holdfast.errors import BadOption


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "reconcile.batch must be a whole number, at least 1, got 0"),
        (
            {"promotion": 0.0},
            "reconcile.promotion must be more than 0 seconds, less than 100 years, got 0.0",
        ),
        (
            {"grace": -1.0},
            "reconcile.grace must be 0 seconds or more, {years}, got -1.0",
        ),
        (
            {"deadline": float("nan")},
            "reconcile.deadline must be more than 0 seconds, {years}, got nan",
        ),
    ],
)
def test_options_outside_their_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(BadOption) as refused:
        ReconcileOptions(**options)  # type: ignore[arg-type]  # wrong on purpose
    assert str(refused.value) == message.format(years="less than 100 years")
