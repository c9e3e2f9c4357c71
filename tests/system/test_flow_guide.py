"""The examples of the guide on flows run on every store, word by word but for the store's URL."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.support.backends import Backend
from tests.support.forking import forks

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
GUIDE = BLOCK.findall((ROOT / "docs/guides/flows.md").read_text())
PROGRAMS = [*GUIDE, (ROOT / "examples/flow.py").read_text()]
STORE = re.compile(r'App\("sqlite://[^"]*"\)')


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_an_example_runs(backend: Backend, tmp_path: Path, number: int) -> None:
    url = asyncio.run(backend.empty())
    source, found = STORE.subn(f"App({url!r})", PROGRAMS[number])
    assert found == 1, "an example names its store in one place"
    script = tmp_path / "example.py"
    script.write_text(source)
    ran = forks().run(script, tmp_path, dict(os.environ))
    assert ran.returncode == 0, f"{source}\n{ran.stdout}\n{ran.stderr}"
