"""Defects of other flow engines, and the tests that show that Holdfast does not have them.

A defect is named as its users met it. The tests run on every store. What belongs to waits, signals
and approvals (shared tokens, sources that the sender declares, an escalation that ends) comes with
them.
"""

from __future__ import annotations

import ast

import pytest

from holdfast.errors import FlowCycle
from holdfast.flow.graph import require_no_cycle
from tests.support.source import ROOT

RELEASE = "conformance/test_flows_release.py"
DEFECTS = "conformance/test_flows_defects.py"
CRASHES = "conformance/test_flows_crashes.py"
EXTEND = "conformance/test_flows_extend.py"

SHOWN_BY: dict[str, tuple[str, ...]] = {
    "what a node owes is marked done before its edges are decided": (
        f"{CRASHES}::test_a_flow_survives_a_death_at_each_of_its_writes",
    ),
    "an edge added after its upstream has ended is never decided": (
        f"{EXTEND}::test_an_upstream_that_has_ended_counts_at_once",
        (
            "conformance/test_flows_orders.py::"
            "test_a_growth_and_the_end_of_its_upstream_miss_each_other_never"
        ),
    ),
    "a timer runs out and never wakes its job": (
        f"{DEFECTS}::test_a_suspended_node_wakes_by_its_timer_and_its_flow_goes_on",
    ),
    "a member is claimed after its flow was cancelled": (
        (
            "chaos/test_cancelled_flows_at_length.py::"
            "test_no_node_of_a_cancelled_flow_begins_in_a_thousand_tries"
        ),
        (
            "conformance/test_flows_orders.py::"
            "test_a_node_that_is_claimed_while_its_flow_is_cancelled_is_told"
        ),
    ),
    "a sweep reads the same oldest items again and again": (
        f"{DEFECTS}::test_an_errand_that_fails_hides_no_other",
        "conformance/test_flows_operating.py::test_a_second_close_is_owed_too",
    ),
    "a delay and a deadline share a column": (
        f"{DEFECTS}::test_a_delay_and_a_deadline_of_a_blocked_node_are_two_things",
    ),
    "the job of a dead worker waits until somebody asks for it": (
        f"{DEFECTS}::test_a_node_of_a_dead_worker_is_tried_again_and_its_zombie_decides_nothing",
        f"{RELEASE}::test_a_reclaimed_node_releases_too",
    ),
    "a timeout is final, or races with the loss of the worker": (
        f"{DEFECTS}::test_a_node_that_timed_out_is_tried_again_before_anybody_is_skipped",
        f"{RELEASE}::test_a_lost_worker_and_a_timeout_end_a_node_as_any_failure",
    ),
    "a reconciler is written and nobody starts it": (
        "unit/test_structure.py::test_every_reconciler_is_started",
    ),
    "a join fires while its graph is still being written": (
        (
            "conformance/test_flows_start.py::"
            "test_a_flow_is_written_whole_and_what_waits_for_nothing_is_ready"
        ),
        (
            "conformance/test_flows_start.py::"
            "test_a_flow_starts_in_the_callers_transaction_or_not_at_all"
        ),
    ),
    "a gate that was met is met again": (f"{RELEASE}::test_a_gate_that_was_met_is_not_met_again",),
    "a cancel rewrites nodes that have ended": (
        f"{DEFECTS}::test_a_cancel_of_a_flow_leaves_ended_nodes_as_they_are",
    ),
    "a cancelled node tells nobody": (
        f"{DEFECTS}::test_who_waits_for_the_end_of_a_cancelled_node_goes_on",
        f"{RELEASE}::test_a_blocked_node_that_is_cancelled_counts_for_those_behind_it",
    ),
    "a loser that another node needs is cancelled": (
        f"{DEFECTS}::test_losers_go_and_what_only_they_need_goes_with_them",
        "system/test_flows.py::test_a_loser_that_another_gate_needs_goes_on",
    ),
    "a circle is not found, or not in a large graph": (
        "unit/test_flow_defects.py::test_a_circle_is_found_in_a_graph_of_ten_thousand_nodes",
        "system/test_flows.py::test_what_cannot_be_a_flow_is_refused_before_anything_is_written",
    ),
    "a flow never ends": (
        f"{RELEASE}::test_a_flow_ends_with_its_last_node_and_is_kept_as_it_said",
        (
            "conformance/test_flows_regressions.py::"
            "test_a_cascade_that_is_cut_off_at_its_last_nodes_ends_the_flow"
        ),
    ),
    "a release that nobody heard of waits for a sweep": (
        f"{RELEASE}::test_a_node_is_released_when_all_it_needs_has_succeeded",
    ),
    "the clock of a program decides when a node goes on": (
        f"{RELEASE}::test_a_node_with_a_delay_waits_for_it_after_its_release",
    ),
    "an impossible gate cancels on one store and not on another": (
        f"{DEFECTS}::test_an_impossible_gate_cancels_nobody",
    ),
}


@pytest.mark.parametrize("defect", SHOWN_BY)
def test_every_defect_has_tests_that_show_its_absence(defect: str) -> None:
    for shown in SHOWN_BY[defect]:
        path, name = shown.split("::")
        tree = ast.parse((ROOT / "tests" / path).read_text())
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        found = [node.name for node in tree.body if isinstance(node, functions)]
        assert name in found, f"{defect}: {shown} is not there"


def test_a_circle_is_found_in_a_graph_of_ten_thousand_nodes() -> None:
    waits = {f"n{number}": [f"n{number - 1}"] if number else [] for number in range(10_000)}
    require_no_cycle(waits)
    with pytest.raises(FlowCycle, match="'n0' waits for 'n9999'"):
        require_no_cycle({**waits, "n0": ["n9999"]})
