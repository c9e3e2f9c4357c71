"""Handlers in child processes, which a timeout or a cancel really kills."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from holdfast.errors import RowRefused
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support import process_handlers as handlers
from tests.support.waiting import wait_until
from tests.support.working import ONCE, QUICK, Shop


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_function_runs_in_a_warm_child_and_nothing_is_left_behind(
    sealed_store: Store,
) -> None:
    shop = Shop(sealed_store, add=handlers.add, pid=handlers.pid)
    ids = [await shop.enqueue("pid") for _ in range(4)]
    total = await shop.enqueue("add", 2, 40)
    await shop.drain(processes=1)
    pids = {(await shop.get(job_id)).result for job_id in ids}
    assert len(pids) == 1
    assert psutil.Process().pid not in pids
    assert (await shop.get(total)).result == 42


async def test_a_timeout_kills_the_child_and_the_pool_heals(
    sealed_store: Store, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    shop = Shop(sealed_store, sleep_forever=handlers.sleep_forever, add=handlers.add)
    policy = Policy(retry=Retry.never(), timeout=3)
    await shop.enqueue("add", 1, 0)
    async with shop.worker(processes=1) as worker:
        await worker.drain()  # the child is warm: its start counts against no timeout
        job_id = await shop.enqueue("sleep_forever", str(note), policy=policy)
        await worker.drain()
        job = await shop.get(job_id)
        assert (job.state, job.errors[0].kind) == (JobState.FAILED, "TimedOut")
        assert is_gone(int(note.read_text()))
        after = await shop.enqueue("add", 1, 1)
        await worker.drain()
        assert (await shop.get(after)).result == 2


async def test_a_cancel_kills_the_child(live_store: Store, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    shop = Shop(live_store, sleep_forever=handlers.sleep_forever)
    job_id = await shop.enqueue("sleep_forever", str(note))
    async with shop.worker(processes=1):
        await wait_until(note.exists, 20, "the child runs")
        asked = time.monotonic()
        await live_store.jobs.request_cancel([job_id])
        job = await shop.until(job_id, lambda job: job.ended)
        assert job.state is JobState.CANCELLED
        assert time.monotonic() - asked < 3
        assert is_gone(int(note.read_text()))


async def test_a_handler_that_kills_its_process_is_put_aside_and_others_go_on(
    live_store: Store,
) -> None:
    shop = Shop(live_store, exit=handlers.exit_at_once, crash=handlers.crash, add=handlers.add)
    many = Policy(retry=Retry(max_attempts=20, base=0, jitter=0), max_crashes=3)
    exits = await shop.enqueue("exit", policy=many)
    crashes = await shop.enqueue("crash", policy=many)
    fine = [await shop.enqueue("add", n, 1) for n in range(5)]
    await shop.drain(processes=2)
    for job_id, how in ((exits, "exited with code 7"), (crashes, "killed by signal 11")):
        job = await shop.get(job_id)
        assert (job.state, job.crashes, job.attempts) == (JobState.FAILED, 3, 3)
        assert job.errors[0].kind == "WorkerLost"
        assert how in job.errors[0].message
    for n, job_id in enumerate(fine):
        assert (await shop.get(job_id)).result == n + 1


async def test_what_a_child_raises_arrives_with_its_traceback(live_store: Store) -> None:
    shop = Shop(
        live_store,
        refuse=handlers.refuse,
        picky=handlers.picky,
        nap=handlers.nap,
        nothing_json=handlers.nothing_json,
    )
    refuse = await shop.enqueue("refuse")
    picky = await shop.enqueue("picky", policy=ONCE)
    nap = await shop.enqueue("nap")
    odd = await shop.enqueue("nothing_json", policy=QUICK)
    misfit = await shop.insert("refuse", '{"gone":1}')
    await shop.drain(processes=1, unreadable_for=0)
    assert (await shop.get(refuse)).reason == "never again"
    failed = await shop.get(picky)
    assert (failed.errors[0].kind, failed.errors[0].message) == ("Picky", "42: no reason")
    assert "in picky" in (failed.errors[0].traceback or "")
    snoozed = await shop.get(nap)
    assert (snoozed.state, snoozed.attempts) == (JobState.SCHEDULED, 0)
    assert (await shop.get(odd)).errors[0].kind == "BadResult"
    assert (await shop.get(misfit)).errors[0].kind == "BadArguments"


async def test_a_childs_words_that_json_cannot_carry_cost_it_nothing(live_store: Store) -> None:
    shop = Shop(live_store, throttle=handlers.throttle)
    job_id = await shop.enqueue("throttle")
    await shop.drain(processes=1)
    job = await shop.get(job_id)
    assert (job.state, job.attempts, job.crashes) == (JobState.SCHEDULED, 0, 0)
    assert job.reason == "throttled: slow ? down"


async def test_progress_of_a_child_reaches_the_store(live_store: Store) -> None:
    shop = Shop(live_store, report=handlers.report)
    job_id = await shop.enqueue("report")
    await shop.drain(processes=1)
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, 1)
    assert job.progress is not None
    assert (job.progress.fraction, job.progress.message) == (0.5, "half way")
    assert job.progress.checkpoint == {"at": 5}


async def test_a_function_that_no_child_can_import_fails_with_advice(live_store: Store) -> None:
    def local() -> None: ...

    shop = Shop(live_store, local=local)
    job_id = await shop.enqueue("local")
    await shop.drain(processes=1)
    job = await shop.get(job_id)
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert "top level of a module" in (job.reason or "")


async def test_a_child_whose_report_could_not_be_kept_answers_no_other_call(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(live_store, report=handlers.report, add=handlers.add)

    async def damaged(reports: object) -> list[bool]:
        raise RowRefused("no such number")

    monkeypatch.setattr(live_store.jobs, "report_progress", damaged)
    reports = await shop.enqueue("report", policy=ONCE)
    async with shop.worker(processes=1) as worker:
        await worker.drain()
        total = await shop.enqueue("add", 2, 40, policy=ONCE)
        await worker.drain()
    assert (await shop.get(reports)).state is JobState.FAILED
    assert (await shop.get(total)).result == 42
