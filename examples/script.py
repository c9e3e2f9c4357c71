"""A script that imports rows: it enqueues, works through the queue and waits for the results."""

from __future__ import annotations

import asyncio
import zlib

from holdfast import App, Context, Retry

app = App("sqlite:///script.db")


@app.task(retry=Retry(max_attempts=3, base=0.05, jitter=0))
async def download(ctx: Context, name: str) -> str:
    """The first attempt meets a flaky server; the second one works."""
    if ctx.attempt == 1:
        raise ConnectionError(f"{name}: the server hung up")
    return f"contents of {name}"


@app.task()
def checksum(text: str) -> int:
    """A plain function runs in a thread, so it may take its time."""
    return zlib.crc32(text.encode())


@app.task()
async def count_rows(ctx: Context, rows: int) -> int:
    """Progress is shown by `holdfast jobs show`; a checkpoint survives a crash."""
    done: int = ctx.checkpoint or 0
    for row in range(done, rows):
        if row % 100 == 0:
            await ctx.progress(row / rows, f"row {row}", checkpoint=row)
    return rows


async def main() -> None:
    async with app:
        page = await download.enqueue("rows.csv")
        number = await checksum.enqueue("rows")
        counted = await count_rows.enqueue(250)
        async with app.worker({"default": 10}):
            print(await page.result(timeout=10))
            print(f"checksum {await number.result(timeout=10):08x}")
            print(f"{await counted.result(timeout=10)} rows")
        print(f"attempts of the download: {(await page.get()).attempts}")


if __name__ == "__main__":
    asyncio.run(main())
