"""Anything may happen in any order, and what is always true stays true, on every store."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.limit_machine import LimitMachine
from tests.support.backends import Backend, SqliteMemory

# The store in memory is the quick one: it explores, the others confirm.
EXPLORING = {"default": settings(max_examples=60), "chaos": settings(max_examples=2_000)}
CONFIRMING = {"default": settings(max_examples=12), "chaos": settings(max_examples=300)}
STEPS = {"default": 40, "chaos": 100}


@pytest.mark.first
@pytest.mark.by_turns
@pytest.mark.timeout(600)  # twenty seconds alone, and ten times that beside many others
def test_what_is_always_true_stays_true_whatever_happens(backend: Backend) -> None:
    profile = os.environ.get("HYPOTHESIS_PROFILE", "default")
    machine = type("Machine", (LimitMachine,), {"backend": backend})
    effort = EXPLORING if isinstance(backend, SqliteMemory) else CONFIRMING
    chosen = settings(effort[profile], stateful_step_count=STEPS[profile])
    run_state_machine_as_test(machine, settings=chosen)
