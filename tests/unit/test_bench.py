"""The pure parts of the benchmarks: ratios, targets, and the guard's decision."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from bench.guard import TOLERATED, Guarded, Recorded
from bench.instructions import line_of
from bench.measure import (
    FASTEST_PEER,
    FLOOR,
    HOLDFAST,
    Contender,
    Contest,
    Entry,
    Sample,
    Workload,
    alternate,
    percentiles,
)
from bench.places import release, valkey_or_redis
from bench.processor import processor_seconds
from bench.sqlite_trace import BRACKET, LOOK, STATEMENT, kind_of
from bench.targets import STORES, TARGETS, Target, judge
from bench.workloads import WORKLOADS


def contest(figure: str = "rate", name: str = "drain", **samples: list[Sample]) -> Contest:
    """Contenders named `peer…` are peers."""
    entries = [Entry(who, who.startswith("peer"), taken) for who, taken in samples.items()]
    return Contest(Workload(name, "sqlite", (), figure), entries)


def test_the_best_rate_is_the_highest_and_the_best_latency_the_lowest() -> None:
    rates = contest(holdfast=[{"rate": 10.0}, {"rate": 12.0}])
    waits = contest("p50", holdfast=[{"p50": 2.0}, {"p50": 3.0}])
    assert rates.best(HOLDFAST, "rate") == 12
    assert waits.best(HOLDFAST, "p50") == 2


def test_the_spread_is_the_distance_of_the_worst_round_as_a_share_of_the_best() -> None:
    rates = contest(holdfast=[{"rate": 8.0}, {"rate": 10.0}])
    assert rates.spread(rates.entries[0]) == pytest.approx(0.2)


def test_a_ratio_compares_the_best_rounds_with_the_floor() -> None:
    rates = contest(floor=[{"rate": 40.0}, {"rate": 20.0}], holdfast=[{"rate": 10.0}])
    assert rates.ratio(HOLDFAST, FLOOR, "rate") == 0.25


def test_the_fastest_peer_is_chosen_for_each_figure_by_itself() -> None:
    waits = contest(
        "p50",
        holdfast=[{"p50": 4.0, "p99": 4.0}],
        peer_a=[{"p50": 1.0, "p99": 8.0}],
        peer_b=[{"p50": 2.0, "p99": 2.0}],
    )
    assert waits.ratio(HOLDFAST, FASTEST_PEER, "p50") == 4
    assert waits.ratio(HOLDFAST, FASTEST_PEER, "p99") == 2


def test_without_peers_there_is_no_ratio_to_them() -> None:
    assert contest(holdfast=[{"rate": 1.0}]).ratio(HOLDFAST, FASTEST_PEER, "rate") is None


async def test_a_contender_that_fails_is_reported_and_the_others_go_on() -> None:
    async def fail() -> Sample:
        raise ConnectionError("no such server")

    async def run() -> Sample:
        return {"rate": 5.0}

    broken = Contender("peer", fail, peer=True)
    workload = Workload("drain", "sqlite", (broken, Contender(HOLDFAST, run)))
    peer, holdfast = (await alternate(workload, 2, lambda text: None)).entries
    assert peer.failure == "ConnectionError: no such server"
    assert peer.best("rate") is None
    assert list(holdfast.samples) == [{"rate": 5.0}, {"rate": 5.0}]


async def test_contenders_take_turns() -> None:
    turns: list[str] = []

    def contender(name: str) -> Contender:
        async def measure() -> Sample:
            turns.append(name)
            return {"rate": 1.0}

        return Contender(name, measure)

    workload = Workload("drain", "sqlite", (contender("a"), contender("b")))
    await alternate(workload, 2, lambda text: None)
    assert turns == ["a", "b", "a", "b"]


def test_percentiles_are_milliseconds() -> None:
    assert percentiles([0.001 * n for n in range(101)]) == pytest.approx(
        {"p50": 50, "p95": 95, "p99": 99}
    )


@pytest.mark.parametrize(
    ("at_most", "value", "met"), [(False, 2.0, True), (False, 1.9, False), (True, 2.1, False)]
)
def test_a_target_is_met_on_the_right_side_of_its_bound(
    at_most: bool, value: float, met: bool
) -> None:
    assert Target("drain", "sqlite", 2, at_most=at_most).is_met_by(value) is met


def test_a_target_is_judged_only_where_its_figure_was_measured() -> None:
    rates = contest(floor=[{"rate": 100.0}], holdfast=[{"rate": 20.0}])
    [judged] = judge([rates])
    assert (judged.target.over, judged.value, judged.met) == (FLOOR, 0.2, True)


def test_a_plain_figure_is_judged_without_a_ratio() -> None:
    resting = contest("cpu_percent", "idle", holdfast=[{"cpu_percent": 0.7, "statements": 2.0}])
    assert [judged.met for judged in judge([resting])] == [False, True]


def test_every_target_belongs_to_a_store_and_a_workload_that_exist() -> None:
    names = {*WORKLOADS, "two busy workers", "flow groups", "flow pipelines", "hop beside a map"}
    names |= {"ten steps", "one step", "steps in sequence", "50 streams", "200 streams"}
    names |= {"limited drain", "one limit", "hundred limits", "shared limit", "limited bulk"}
    names |= {"many keys", "one at a time", "freed permit", "limited snapshot"}
    assert {target.store for target in TARGETS} == set(STORES)
    assert {target.workload for target in TARGETS} <= names


@pytest.mark.parametrize(
    ("figure", "ratio", "fell"),
    [("rate", 0.42, False), ("rate", 0.41, True), ("cpu", 0.59, False), ("cpu", 0.61, True)],
)
def test_the_guard_fails_when_a_ratio_is_worse_than_it_may_be(
    figure: str, ratio: float, fell: bool
) -> None:
    """A rate of 1 / 1.2 is as bad as a time of 1.2."""
    guarded = Guarded("drain sqlite", figure, ratio, recorded=0.5, tolerated=0.2)
    assert guarded.fell is fell


def test_the_guard_takes_the_middle_one_of_the_ratios_of_each_round() -> None:
    """The best round of each would be 2: they were not of one moment."""
    found = contest(
        "cpu",
        floor=[{"cpu": 1.0}, {"cpu": 10.0}, {"cpu": 2.0}],
        holdfast=[{"cpu": 3.0}, {"cpu": 40.0}, {"cpu": 10.0}],
    )
    assert found.median_of_pairs(HOLDFAST, FLOOR, "cpu") == 4


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("PRAGMA data_version", LOOK),
        ("BEGIN IMMEDIATE", BRACKET),
        ("-- a reason\nselect 1", STATEMENT),
    ],
)
def test_a_look_at_a_counter_is_told_from_a_statement(statement: str, kind: int) -> None:
    assert kind_of(statement) == kind


def test_rounds_that_are_added_can_only_better_a_figure() -> None:
    first = contest(floor=[{"rate": 40.0}], holdfast=[{"rate": 10.0}])
    second = contest(floor=[{"rate": 30.0}], holdfast=[{"rate": 20.0}])
    assert first.and_then(second).ratio(HOLDFAST, FLOOR, "rate") == 0.5


def test_the_guard_lets_pass_what_was_never_recorded() -> None:
    assert not Guarded("drain sqlite", "rate", 0.01, recorded=None, tolerated=0.2).fell


def test_the_guard_does_not_compare_the_ratios_of_two_servers() -> None:
    drain = Workload("drain", "valkey", ())
    recorded = Recorded({"drain valkey rate": 0.9}, {"valkey": "Redis 6.2"})
    same = recorded.compared(drain, "rate", 0.3, "Redis 6.2")
    other = recorded.compared(drain, "rate", 0.3, "Valkey 9.1")
    assert (same.fell, other.fell) == (True, False)
    assert str(other).endswith("recorded 0.900 with Redis 6.2: not compared")


def test_the_guard_does_not_believe_the_clock_of_a_busy_machine() -> None:
    drain = Workload("drain", "valkey", ())
    ratios = {"drain valkey rate": 0.5, "drain valkey cpu": 2.0}
    recorded = Recorded(ratios, {"valkey": "Valkey 9.1"})
    assert recorded.compared(drain, "rate", 0.1, "Valkey 9.1").fell
    assert recorded.compared(drain, "cpu", 9.0, "Valkey 9.1", busy=True).fell
    busy = recorded.compared(drain, "rate", 0.1, "Valkey 9.1", busy=True)
    assert not busy.fell
    assert str(busy).endswith("recorded 0.500 and others had the processors: not compared")


def test_what_is_recorded_names_the_server_of_every_store() -> None:
    recorded = Recorded.load()
    assert recorded.servers.keys() == {name.split()[1] for name in recorded.ratios} == set(STORES)


def test_everything_that_the_guard_looks_at_is_recorded() -> None:
    looked_at = {
        f"{workload} {store} {figure}"
        for workload, figures in TOLERATED.items()
        for figure in figures
        for store in STORES
    }
    assert Recorded.load().ratios.keys() == looked_at


def test_a_process_takes_processor_time_and_one_that_is_gone_none() -> None:
    assert 0 < processor_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.1)
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert processor_seconds(ended.pid) == 0


@pytest.mark.parametrize(
    ("info", "server"),
    [
        ("# Server\r\nredis_version:6.2.14\r\ngcc_version:10.2.1\r\n", "Redis 6.2"),
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n", "Valkey 9.1"),
    ],
)
def test_valkey_is_told_from_redis(info: str, server: str) -> None:
    assert release(*valkey_or_redis(info), 2) == server


def test_counts_of_two_trees_are_compared_by_the_least() -> None:
    text = line_of("valkey", [[1030.0, 1001.0], [5000.0, 1000.0]])
    assert text.endswith(
        "1,030 instructions a job (1,030 5,000), beside 1,000 (1,001 1,000): 1.030"
    )
    assert "beside" not in line_of("sqlite", [[1030.0]])
