"""A program dies at every write of a run: before it, after it, or without hearing the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.backends import Backend
from tests.support.crash_sweep import Sweep

STORIES = {
    "retries": {"insert", "claim", "finish"},
    "steps": {"insert", "claim", "finish", "record", "append", "send", "start"},
    "limits": {"insert", "claim", "finish", "report_spend", "take"},
    "flows": {"start", "claim", "finish", "extend", "done"},
    "whole": {"start", "claim", "finish", "extend", "record", "append", "report_spend", "take"},
}
"""Each story, and the verbs at which its program must have died."""


pytestmark = pytest.mark.timeout(600)


@pytest.mark.chaos
@pytest.mark.parametrize("story", STORIES)
async def test_a_program_may_die_at_any_write(
    shared_backend: Backend, tmp_path: Path, story: str
) -> None:
    await _died_everywhere(shared_backend, tmp_path, story)


@pytest.mark.long
async def test_a_program_with_something_of_all_may_die_at_any_write(
    shared_backend: Backend, tmp_path: Path
) -> None:
    await _died_everywhere(shared_backend, tmp_path, "whole")


async def _died_everywhere(backend: Backend, folder: Path, story: str) -> None:
    sweep = Sweep(backend, folder, story)
    await sweep.all()
    assert sweep.died.keys() >= STORIES[story]
