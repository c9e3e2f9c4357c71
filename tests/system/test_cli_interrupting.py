"""Ctrl-C during an act on many jobs: it stops in good order, and says how to go on."""

from __future__ import annotations

import signal

from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.operations import OperationState
from tests.conformance.builders import new_job
from tests.support.backends import opened
from tests.support.shell import STARTS, Shell
from tests.support.waiting import wait_until


async def test_ctrl_c_stops_the_operation_and_says_how_to_go_on(shell: Shell) -> None:
    async with opened(shell.url) as store:
        await store.jobs.insert([new_job() for _ in range(200)])
        words = ("--queue", "default", "--pace", "20", "--yes")
        process = shell.start("--url", shell.url, "jobs", "cancel", "--all", *words)

        async def has_begun() -> bool:
            return any(one.progress.changed for one in await store.operations.find())

        await wait_until(has_begun, STARTS, "the first jobs are cancelled")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=STARTS)
        [operation] = await store.operations.find()
        assert operation.state is OperationState.STOPPED
        assert (process.returncode, out) == (130, "")
        assert f"operation {operation.id} is stopped after" in err
        assert f"go on: holdfast operations go-on {operation.id}" in err
        assert err.rstrip().endswith("interrupted")
        code, *_ = shell.run("--url", shell.url, "operations", "undo", operation.id)
        assert code == 0
        counts = await store.jobs.count(JobFilter())
        assert counts == {JobState.READY: 200}
