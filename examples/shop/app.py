"""The app: where jobs live, which tasks there are, and what lies around each of them.

holdfast worker shop.app:app
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from holdfast import App, Context, Event
from shop.tasks import shop

log = logging.getLogger("shop")
request_id: ContextVar[str] = ContextVar("request_id", default="none")

app = App("sqlite:///shop.db")
app.include(shop)


@app.on_enqueue
def carry_request(task: str) -> Mapping[str, str]:
    """Every job says which request it comes from."""
    return {"request": request_id.get()}


@app.around_attempt
async def within_request(ctx: Context, run: Callable[[], Awaitable[Any]]) -> Any:
    """The handler, and what it enqueues, belong to the same request."""
    token = request_id.set(ctx.job.headers.get("request", "none"))
    try:
        return await run()
    finally:
        request_id.reset(token)


@app.in_thread
def timed(ctx: Context, run: Callable[[], Any]) -> Any:
    """In the thread of a plain function: the place for what belongs to one thread."""
    began = time.thread_time()
    try:
        return run()
    finally:
        log.info("%s took %.3f s of processor time", ctx.job.task, time.thread_time() - began)


def report(event: Event) -> None:
    """Where a program would call Sentry."""
    log.error("job %s failed: %s", event.fields["job_id"], event.fields["error"])


app.events.subscribe(report, "job.failed")
