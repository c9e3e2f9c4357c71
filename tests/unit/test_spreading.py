"""Tests that are spread over processes end as if one process had run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.by_turns import STORES, turn_of
from tests.support.source import ROOT
from tests.support.spreading import SHARE, Stretches

SUITE = """
import os, signal, warnings
import pytest

def note(word):
    with open("noted", "a") as file:
        file.write(f"{word} {os.getpid()}\\n")

@pytest.fixture(scope="session")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    yield place
    note(f"left {len(list(place.iterdir()))}")

@pytest.mark.parametrize("number", range(100))
def test_good(place, number, capfd):
    (place / str(number)).touch()
    os.system(f"echo {number}")
    assert capfd.readouterr().out == f"{number}\\n"
    note(f"good {number}")

def test_wrong():
    print("what it said")
    assert os.getpid() == 0

def test_deadly():
    os.kill(os.getpid(), signal.SIGKILL)

def test_warning():
    warnings.warn("mind the gap")
"""


def spread(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.spreading", *options]
    return subprocess.run(
        [*command, "--basetemp", str(folder / "temporary")],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


def test_every_test_runs_once_and_is_reported_whatever_becomes_of_its_process(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    ran = spread(tmp_path, "--processes", "3", "--beside", "touch beside")
    assert "2 failed, 101 passed, 1 warning" in ran.stdout, ran.stdout + ran.stderr
    assert "what it said" in ran.stdout
    assert "mind the gap" in ran.stdout
    assert "its process ended with exit code -9" in ran.stdout
    assert (tmp_path / "beside").exists()
    noted = [line.split() for line in (tmp_path / "noted").read_text().splitlines()]
    assert sorted(int(n) for word, n, _ in noted if word == "good") == list(range(100))
    pids = {pid for word, _, pid in noted if word == "good"}
    assert len(pids) in (3, 4), "three, and the one in place of the one that died"
    assert {word for word, _, _ in noted} == {"good", "left"}, "no fixture was torn down"


LONG_SUITE = """
import time, pytest

@pytest.mark.parametrize("number", range(1000))
def test_long(number):
    time.sleep(0.1)
"""


def test_the_run_ends_when_the_command_beside_fails(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(LONG_SUITE)
    ran = spread(tmp_path, "--processes", "3", "--beside", "false")
    assert (ran.returncode, "failed: false" in ran.stdout) == (1, True), ran.stdout
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is None or int(passed[1]) < 100


def test_a_run_has_failed_if_the_command_beside_fails_after_all_tests(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text("def test_good(): pass")
    (tmp_path / "beside.sh").write_text("sleep 2; exit 3")
    ran = spread(tmp_path, "--processes", "3", "--beside", "sh beside.sh")
    assert (ran.returncode, "failed: sh beside.sh" in ran.stdout) == (1, True), ran.stdout
    assert "1 passed" in ran.stdout


@pytest.mark.parametrize(("tests", "processes"), [(0, 3), (2, 3), (1_000, 1), (1_001, 6)])
def test_each_test_is_taken_once_and_the_last_shares_are_small(tests: int, processes: int) -> None:
    stretches, taken = Stretches(tests, processes), list[list[int]]()
    while share := stretches.take(len(taken) % processes):
        taken.append(share)
    assert sorted(number for share in taken for number in share) == list(range(tests))
    assert all(len(share) <= SHARE for share in taken)
    assert all(len(share) == 1 for share in taken[-processes:])
    assert not any(stretches.take(process) for process in range(processes))


def test_a_stretch_is_taken_in_order_and_another_one_from_its_middle() -> None:
    stretches = Stretches(80, 2)
    assert stretches.take(0) == list(range(20))
    stretches.give_back(0, [18, 19])
    assert stretches.take(0)[:2] == [18, 19]
    while (share := stretches.take(1))[0] >= 40:
        pass
    assert {*share} < {*range(30, 40)}, "the first of these are left to whose they are"


def test_a_test_has_its_turn_on_one_store_and_each_store_has_its_part() -> None:
    turns = Counter[str]()
    for number in range(300):
        chosen = {turn_of(f"test_x[{store}-{number}]", store) for store in STORES}
        assert len(chosen) == 1, "from whichever store the name is"
        turns.update(chosen)
    assert min(turns[store] for store in STORES) > 80
