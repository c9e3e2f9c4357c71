"""What the store tells of all jobs together: `client.telemetry.stats()` and `metrics()`."""

from __future__ import annotations

from typing import Any

from holdfast.enqueue.options import Seconds
from holdfast.errors import StoreError
from holdfast.insights.figures import SCRAPE_SECONDS, read_figures
from holdfast.insights.overview import Overview, OverviewReader
from holdfast.insights.stats import Stats, read_stats
from holdfast.job import checks
from holdfast.store.contract.store import Store
from holdfast.telemetry.of_store import store_families
from holdfast.telemetry.scale import scale
from holdfast.telemetry.text import to_text


class TelemetryVerbs:
    """Tell the figures of the whole store, for a page of your own that others scrape."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._overviews = OverviewReader(store)

    async def overview(self) -> Overview:
        """Everything of the first page in one answer: counts by state, queues, workers, what is
        wrong, and of the last hour the moves by minute, percentiles of wait and run, and failures.
        Six questions to the store, whatever it holds."""
        return await self._overviews.read()

    async def metrics(self, *, timeout: Seconds = SCRAPE_SECONDS) -> str:
        """Text for Prometheus. A store that does not answer within the timeout is told as
        `holdfast_store_up` 0; nothing is raised."""
        seconds = checks.wait("timeout", timeout)
        try:
            figures = await read_figures(self._store, seconds)
        except StoreError:
            figures = None
        return to_text(store_families(self._store.kind, figures))

    async def scale(
        self, queue: str | None = None, *, timeout: Seconds = SCRAPE_SECONDS
    ) -> dict[str, Any]:
        """How much work waits, in one queue or in each of them, for whoever starts and stops
        workers by it. Raises `StoreUnavailable` if the store does not answer within the timeout."""
        if queue is not None:
            checks.check_name("queue", queue)
        seconds = checks.wait("timeout", timeout)
        return scale(await read_figures(self._store, seconds), queue)

    async def stats(
        self, since: Seconds = 3600.0, *, queue: str | None = None, task: str | None = None
    ) -> Stats:
        """What happened since so many seconds ago: counts of jobs, and how long they waited and
        ran, all together and by task; of all jobs, or of those of a queue, a task or both."""
        if queue is not None:
            checks.check_name("queue", queue)
        if task is not None:
            checks.check_name("task", task)
        return await read_stats(self._store, checks.seconds("since", since), queue, task)
