"""Failures: errors of one cause are counted together, and their jobs run again together."""

from __future__ import annotations

from holdfast import App, Retry

app = App("sqlite://")
shop_is_open = False


@app.task(retry=Retry.never())
async def bill(order: int) -> None:
    if not shop_is_open:
        raise ConnectionError(f"no answer to order {order} from 10.0.0.{order}:443")


async def test_errors_of_one_cause_are_one_failure_whose_jobs_run_again() -> None:
    global shop_is_open
    async with app:
        await bill.enqueue_many((order,) for order in range(20))
        async with app.worker() as worker:
            await worker.drain()
            [failure] = (await app.client.failures.page()).failures
            assert (failure.kind, failure.count, failure.dead) == ("ConnectionError", 20, 20)

            shop_is_open = True
            operation = await app.client.failures.redrive(failure.fingerprint, by="ann")
            await app.client.operations.follow(operation.id)
            await worker.drain()
        assert (await app.client.failures.get(failure.fingerprint)).dead == 0
        assert await app.client.count(task=bill.name) == {"succeeded": 20}
