"""What the documentation shows is what happens: every Python example runs as it stands."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")


def examples() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text()), start=1):
            found.append((f"{page.relative_to(ROOT)}-{number}", match[1]))
    return found


@pytest.mark.parametrize(("name", "source"), examples(), ids=[name for name, _ in examples()])
def test_every_example_runs_as_it_stands(name: str, source: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(source)
    environ = {**os.environ, "HOLDFAST_URL": "sqlite://"}
    ran = subprocess.run(
        [sys.executable, script.name],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, f"{name}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_page_leads_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_every_public_name_is_documented() -> None:
    reference = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    assert [name for name in holdfast.__all__ if f"`{name}" not in reference] == []


def modules_with_examples() -> list[str]:
    walked = pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    skipped = ("holdfast.testing.servers.__main__", "holdfast.cli.__main__")
    return [module.name for module in walked if module.name not in skipped]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
