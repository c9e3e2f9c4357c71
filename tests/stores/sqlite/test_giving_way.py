"""Processes that share a file take turns: who waits is not passed over while another drains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.clock import SystemClock
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Writer


@asynccontextmanager
async def writer_on(path: Path) -> AsyncIterator[Writer]:
    """For the locks of SQLite, two writers of one process are as good as two processes."""
    writer = Writer(Location.parse(f"sqlite:///{path}"), SystemClock())
    writer.retain()
    try:
        await writer.migrate()
        yield writer
    finally:
        writer.release()


def long_write(tx: Transaction) -> None:
    time.sleep(0.008)


def short_write(tx: Transaction) -> None:
    tx.run("update holdfast_counter set n = n + 1 where topic = 'arrival'")


async def test_who_waits_for_the_lock_is_not_passed_over_while_another_drains(
    tmp_path: Path,
) -> None:
    async with writer_on(tmp_path / "a.db") as busy, writer_on(tmp_path / "a.db") as other:
        written = 0

        async def drain() -> None:
            nonlocal written
            while True:
                await busy.write(long_write)
                written += 1

        drains = [asyncio.create_task(drain()) for _ in range(3)]
        passed = []
        for _ in range(25):
            before = written
            await asyncio.wait_for(other.write(short_write), 30)
            passed.append(written - before)
            await asyncio.sleep(0.01)
        for task in drains:
            task.cancel()
        await asyncio.wait(drains)
        assert sum(passed) <= 25 * 6


def marks_in(folder: Path) -> list[Path]:
    return list(folder.glob("*-waiting"))


async def test_who_has_the_file_alone_leaves_no_mark_and_no_gap(tmp_path: Path) -> None:
    async with writer_on(tmp_path / "a.db") as writer:
        for _ in range(20):
            await asyncio.gather(writer.write(long_write), writer.write(short_write, small=True))
    assert marks_in(tmp_path) == []
