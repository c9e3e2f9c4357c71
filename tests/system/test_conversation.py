"""A handler asks and its worker answers, the same on the loop, in a thread, in a child process
and in a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast import App
from holdfast.context import Context
from holdfast.errors import RowRefused
from holdfast.handlers.inline import on_the_spot
from holdfast.job.policy import Policy
from holdfast.store.contract.records import ProgressReport
from holdfast.store.contract.store import Store
from holdfast.testing.inline import FIRST, run_inline
from tests.support import process_handlers as handlers
from tests.support.working import ONCE, Shop

MODES = ["loop", "thread", "process"]


async def on_the_loop(ctx: Context) -> str:
    try:
        await ctx.progress(0.5, "half way")
    except Exception as error:  # noqa: BLE001 - the test wants to know which
        return type(error).__name__
    return "kept"


def shop_in(mode: str, store: Store) -> tuple[Shop, str]:
    functions: dict[str, tuple[tuple[Callable[..., Any], ...], dict[str, Any]]] = {
        "loop": ((on_the_loop,), {}),
        "thread": ((handlers.report_and_tell,), {}),
        "process": ((), {"report_and_tell": handlers.report_and_tell}),
    }
    plain, processes = functions[mode]
    shop = Shop(store, *plain, **processes)
    return shop, next(iter(shop.registry))


async def heard_in(mode: str, store: Store, policy: Policy = ONCE) -> object:
    shop, task = shop_in(mode, store)
    job_id = await shop.enqueue(task, policy=policy)
    await shop.drain(processes=1)
    return (await shop.get(job_id)).result


@pytest.mark.parametrize("mode", MODES)
async def test_progress_that_is_kept_is_answered_everywhere(live_store: Store, mode: str) -> None:
    assert await heard_in(mode, live_store) == "kept"


@pytest.mark.parametrize("mode", MODES)
async def test_progress_of_an_attempt_that_is_gone_is_answered_everywhere(
    live_store: Store, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobodys(reports: Sequence[ProgressReport]) -> list[bool]:
        return [False for _ in reports]

    monkeypatch.setattr(live_store.jobs, "report_progress", nobodys)
    assert await heard_in(mode, live_store) == "AttemptLost"


@pytest.mark.parametrize("mode", MODES)
async def test_progress_that_the_store_cannot_take_is_answered_everywhere(
    live_store: Store, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def picky(reports: Sequence[ProgressReport]) -> list[bool]:
        raise RowRefused("no halves")

    monkeypatch.setattr(live_store.jobs, "report_progress", picky)
    assert await heard_in(mode, live_store) == "RowRefused"


async def test_a_task_that_a_test_runs_inline_is_answered_too() -> None:
    app = App("sqlite://")
    task = app.task()(on_the_loop)
    ran = await run_inline(task, task.handler, (), {}, FIRST, on_the_spot)
    assert ran.result == "kept"
    assert [report.fraction for report in ran.progress] == [0.5]
