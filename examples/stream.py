"""An answer that comes word by word, as a language model gives it.

One who follows it leaves in the middle and goes on later, by the cursor of the last word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from holdfast import App, Context, JobHandle

DATABASE = Path("stream.db")
app = App(f"sqlite:///{DATABASE}")


async def model(question: str) -> AsyncIterator[str]:
    """Stands for a model: it answers in tokens."""
    for word in f"About {question}: there is much to say, and nobody has said it.".split():
        await asyncio.sleep(0.01)
        yield f"{word} "


@app.task()
async def answer(ctx: Context, question: str) -> str:
    async with ctx.stream("tokens") as out:
        async for token in model(question):
            await out.write(token)
    return out.text


async def show(
    job: JobHandle[str], after: str | None = None, words: int | None = None
) -> str | None:
    """Print frames until so many were printed; gives the cursor of the last one."""
    cursor = after
    async for frame in job.stream("tokens", after=after):
        print(frame.data, end="", flush=True)
        cursor = frame.cursor
        if words is not None and (words := words - 1) == 0:
            break
    print()
    return cursor


async def main() -> None:
    async with app:
        job = await answer.enqueue("streams")
        async with app.worker({"default": 4}):
            cursor = await show(job, words=4)
            print("… somebody closes the page, and opens it again:")
            await show(job, after=cursor)
            print(len(await job.result(timeout=30)), "characters in all")


if __name__ == "__main__":
    for leftover in Path().glob(f"{DATABASE}*"):
        leftover.unlink()
    asyncio.run(main())
