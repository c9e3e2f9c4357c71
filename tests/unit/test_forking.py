"""Programs that tests have forked end with the process of the test."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from tests.support.forking import Forks
from tests.support.waiting import wait_until

STARTS_ANOTHER = """
import subprocess

subprocess.run(["sleep", "600"])
"""


async def test_a_program_and_what_it_started_end_with_the_process_that_wanted_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(STARTS_ANOTHER)
    forks = Forks()
    program = forks.start("program", env=os.environ, log=tmp_path / "log", folder=tmp_path)
    found = psutil.Process(program.pid)
    await wait_until(lambda: len(found.children()) == 1, 20, "the program has started another")
    [other] = found.children()
    forks._process.communicate()
    await wait_until(lambda: has_ended(other) and has_ended(found), 20, "both have ended")


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # where nobody asks how an orphan ended
    except psutil.NoSuchProcess:
        return True
