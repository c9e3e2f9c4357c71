"""Encryption with real worker processes: a change of keys, and keys on no command line."""

from __future__ import annotations

import psutil

from holdfast import App, Keyring
from holdfast.encryption.keyring import generate_key
from holdfast.job.state import JobState
from tests.support.canaries import CANARY
from tests.support.shell import Shell
from tests.support.waiting import wait_until

OLD, NEW = generate_key("2026-05"), generate_key("2026-11")
CHILD = """

@app.task(name="shout", process=True)
def shout(name: str) -> str:
    import sys
    return f"{name} by {' '.join(sys.orig_argv)}"
"""


async def test_a_fleet_changes_its_keys_while_it_works(shell: Shell) -> None:
    """Old and new programs enqueue; some workers have the new key first, some the old one."""
    shell.app.write_text(shell.app.read_text() + CHILD)
    for keys in (f"{OLD},{NEW}", f"{NEW},{OLD}"):
        shell.environment["HOLDFAST_KEYS"] = keys
        shell.start("worker", "shop:app", "--queues", "default:4")
    handles = []
    for keys in (OLD, f"{NEW},{OLD}"):
        async with App(shell.url, keys=Keyring.of_text(keys)) as app:
            for name in ("greet", "shout"):
                task = app.task_named(name)
                handles += await task.enqueue_many([{"name": f"{CANARY} {n}"} for n in range(10)])
    async with App(shell.url, keys=Keyring.of_text(f"{NEW},{OLD}")) as app:

        async def all_done() -> bool:
            return (await app.client.count()) == {JobState.SUCCEEDED: len(handles)}

        await wait_until(all_done, 40, "every job is done by a worker that has its key")
        results = [await app.client.result(handle.id) for handle in handles]
    assert all(CANARY in result for result in results)
    shown = "".join(results) + "".join(_arguments())
    for key in (OLD, NEW):
        assert key.partition(":")[2] not in shown
    kept = b"".join(file.read_bytes() for file in shell.folder.glob("jobs.db*"))
    assert CANARY.encode() not in kept


def _arguments() -> list[str]:
    """The command lines of this process and of all that it started."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return [" ".join(process.cmdline()) for process in processes]
