"""The drawings of a benchmark: scales, labels and what is left out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.charts import charts
from bench.charts.bars import bar_width
from bench.charts.lines import LABEL, apart, round_up

SVG = "{http://www.w3.org/2000/svg}"


def entry(contender: str, rate: float, **rest: Any) -> dict[str, Any]:
    drained = {"workload": "drain", "store": "postgres", "contender": contender, "peer": False}
    return drained | {"best": {"rate": rate}} | rest


def record(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "date": "2026-11-15T22:23:15+00:00",
        "machine": {"cores": 2, "memory_gib": 24},
        "versions": {"python": "3.11.7"},
        "settings": {"postgres": {"server_version": "15.18"}, "rounds": 3},
        "results": list(entries),
    }


def texts(drawing: str) -> list[str]:
    return [str(found.text) for found in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


def test_bars_are_ordered_by_speed_and_say_their_value() -> None:
    run = record(entry("holdfast", 30_000), entry("floor", 60_000), entry("slow 1.0", 99.96))
    said = texts(charts(run)["bench-drain.svg"])
    assert said[3:9] == ["floor", "60,000", "holdfast", "30,000", "slow 1.0", "100.0"]


def test_the_shorter_latency_comes_first() -> None:
    slow = entry("holdfast", 0, workload="pickup", best={"p50": 2.7})
    quick = entry("floor", 0, workload="pickup", best={"p50": 1.1})
    said = texts(charts(record(slow, quick))["bench-pickup.svg"])
    assert said.index("floor") < said.index("holdfast")


def test_only_the_fastest_peers_are_drawn() -> None:
    peers = [entry(f"peer {number}", number, peer=True) for number in range(1, 10)]
    said = texts(charts(record(entry("holdfast", 0.5), *peers))["bench-drain.svg"])
    assert [name for name in said if name.startswith("peer")] == [f"peer {n}" for n in (9, 8, 7, 6)]
    assert "holdfast" in said


def test_a_contender_that_failed_and_a_workload_nobody_ran_are_not_drawn() -> None:
    failed = {"workload": "bulk", "store": "postgres", "contender": "x", "failure": "no"}
    assert list(charts(record(entry("holdfast", 1), failed))) == ["bench-drain.svg"]


def test_a_drawing_says_when_and_on_what_it_was_measured() -> None:
    said = texts(charts(record(entry("holdfast", 1)))["bench-drain.svg"])
    assert said[-1] == "2026-11-15 · 2 cores, 24 GiB · Python 3.11.7 · Postgres 15.18"


def test_growth_is_a_line_from_the_smallest_backlog_to_the_largest() -> None:
    costs = {"us_100000": 22.0, "us_1000": 20.0, "us_history": 21.0, "growth": 1.1}
    said = texts(
        charts(record(entry("holdfast", 0, workload="growth", best=costs)))["bench-growth.svg"]
    )
    assert "Postgres  20.0 → 22.0" in said
    assert {"1,000", "100,000"} < set(said)


def test_names_cannot_break_the_drawing() -> None:
    drawing = charts(record(entry("<b> & co", 1)))["bench-drain.svg"]
    assert "<b> & co" in texts(drawing)


@given(st.floats(0, 1e9), st.floats(1e-3, 1e9))
def test_a_bar_is_always_seen_and_never_longer_than_the_longest(
    value: float, longest: float
) -> None:
    assert 0 < bar_width(min(value, longest), longest) <= bar_width(longest, longest)


@given(st.floats(1e-6, 1e12))
def test_an_axis_holds_its_largest_value_and_wastes_at_most_half(value: float) -> None:
    assert value <= round_up(value) <= 2 * value


@pytest.mark.parametrize(("value", "top"), [(1, 1), (23.9, 24), (41, 60), (81, 100), (0.07, 0.08)])
def test_an_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert round_up(value) == pytest.approx(top)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=3))
def test_names_of_lines_keep_their_order_and_do_not_touch(heights: list[float]) -> None:
    placed = apart(heights)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = [placed[place] for place in order]
    assert all(below - above >= LABEL - 1e-9 for above, below in pairwise(moved))
    assert all(now >= before for before, now in zip(heights, placed, strict=True))
