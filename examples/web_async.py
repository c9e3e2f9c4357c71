"""An ASGI app that enqueues: the request is answered at once, a worker does the work.

FastAPI and Starlette are ASGI apps too: there, open `jobs` in the lifespan in the same way.

    POST /thumbnails/WIDTH   → 202 and the id of a job
    GET  /thumbnails/ID      → the state of that job
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from holdfast import App, UnknownJob

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

jobs = App("sqlite:///web_async.db")


@jobs.task(timeout=30)
async def make_thumbnail(width: int) -> str:
    return f"thumbnail-{width}.png"


async def web(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await live(receive, send)
        return
    status, answer = await route(scope["method"], scope["path"].strip("/").split("/"))
    head = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


async def live(receive: Receive, send: Send) -> None:
    """The store is open from the server's start to its end."""
    await receive()
    async with jobs:
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def route(method: str, path: list[str]) -> tuple[int, dict[str, Any]]:
    match method, path:
        case "POST", ["thumbnails", width] if width.isdigit():
            handle = await make_thumbnail.enqueue(int(width))
            return 202, {"job": handle.id}
        case "GET", ["thumbnails", job_id]:
            try:
                job = await jobs.client.get(job_id)
            except UnknownJob:
                return 404, {"error": "no such job"}
            return 200, {"state": job.state, "result": job.result}
        case _:
            return 404, {"error": "no such page"}


async def main() -> None:
    """What a server and a worker beside it would do."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    said: asyncio.Queue[Message] = asyncio.Queue()
    server = asyncio.create_task(web({"type": "lifespan"}, to_app.get, said.put))
    await to_app.put({"type": "lifespan.startup"})
    print((await said.get())["type"])
    accepted = await request("POST", "/thumbnails/64")
    print(f"accepted: {sorted(accepted)}")
    async with jobs.worker({"default": 10}) as worker:
        await worker.drain()
    print(await request("GET", f"/thumbnails/{accepted['job']}"))
    print(await request("GET", "/nowhere"))
    await to_app.put({"type": "lifespan.shutdown"})
    await server


async def request(method: str, path: str) -> dict[str, Any]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    await web({"type": "http", "method": method, "path": path}, receive, send)
    answer: dict[str, Any] = json.loads(sent[1]["body"])
    return answer


if __name__ == "__main__":
    asyncio.run(main())
