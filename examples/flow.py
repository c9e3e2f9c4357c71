"""A flow that publishes an album: pictures in parallel, the faster of two captions, then the page.

`list_pictures` names the pictures, a map makes a thumbnail of each, two writers race for the
caption, and `publish` waits for all of it. The writer that comes second is cancelled.
"""

from __future__ import annotations

import asyncio

from holdfast import App, Retry, any_of

app = App("sqlite:///flow.db")


@app.task()
async def list_pictures(album: str) -> list[str]:
    return [f"{album}-{number}.jpg" for number in range(1, 5)]


@app.task(retry=Retry(max_attempts=3, base=0.05, jitter=0))
async def thumbnail(picture: str, width: int) -> str:
    return f"{picture}@{width}"


@app.task()
async def write_caption(album: str, by: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"{album}, by {by}"


@app.task()
async def publish(caption: str, pictures: list[str]) -> str:
    return f"{caption}: {', '.join(pictures)}"


async def main() -> None:
    async with app:
        flow = app.flow("album")
        pictures = flow.add(list_pictures, "summer")
        small = flow.map(thumbnail, pictures.output, width=200)
        quick = flow.add(write_caption, "summer", "ann", 0.01).named("quick")
        thorough = flow.add(write_caption, "summer", "bob", 60.0).named("thorough")
        caption = any_of(quick, thorough, losers="cancel").output
        flow.add(publish, caption, small.outputs)
        run = await flow.start()
        explained = await run.explain()
        print(f"waiting: {', '.join(node.name for node in explained.waiting)}")
        async with app.worker({"default": 10}):
            print(await run.result(timeout=20))
        states = {node.name: node.state.value for node in await run.nodes()}
        print(f"thorough: {states['thorough']}")
        print(f"nodes: {len(states)}, flow: {(await run.get()).state}")


if __name__ == "__main__":
    asyncio.run(main())
