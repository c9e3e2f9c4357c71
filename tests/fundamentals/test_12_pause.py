"""A paused queue gives nothing out; what runs goes on. All queues can be paused, and one task."""

from __future__ import annotations

from holdfast import App, Who
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(queue="mail")
async def send(to: str) -> str:
    return f"sent to {to}"


@app.task(queue="mail")
async def sort(letters: int) -> int:
    return letters


@app.task(name="mail.frank", also=("mail.stamp",), queue="mail")
async def frank(letters: int) -> int:
    return letters


async def test_a_paused_queue_gives_nothing_out_until_it_is_resumed() -> None:
    async with Harness(app):
        await app.client.queues.pause("mail")
        job = await send.enqueue("ann")
        async with app.worker({"mail": 1}) as worker:
            assert await worker.drain() == 0
            await app.client.queues.resume("mail")
            assert await job.result(timeout=10) == "sent to ann"


async def test_a_pause_is_shown() -> None:
    async with Harness(app):
        await app.client.queues.pause("mail")
        [queue] = await app.client.queues.all()
        assert (queue.name, queue.paused) == ("mail", True)


async def test_everything_is_paused_also_queues_that_do_not_exist_yet() -> None:
    async with Harness(app):
        await app.client.queues.pause_all()
        job = await send.using(queue="of-tomorrow").enqueue("ann")
        [reason, *_] = (await app.client.explain(job.id)).reasons
        assert (reason.code, reason.who) == ("all-paused", Who.OPERATOR)
        async with app.worker({"of-tomorrow": 1}) as worker:
            assert await worker.drain() == 0
            await app.client.queues.resume_all()
            assert await job.result(timeout=10) == "sent to ann"


async def test_one_task_is_paused_and_the_others_of_its_queue_go_on() -> None:
    async with Harness(app):
        await app.client.tasks.pause(send.name)
        held, other = await send.enqueue("ann"), await sort.enqueue(3)
        async with app.worker({"mail": 1}) as worker:
            assert await worker.drain() == 1
            assert await other.result() == 3
            [reason, *_] = (await app.client.explain(held.id)).reasons
            assert (reason.code, reason.who) == ("task-paused", Who.OPERATOR)
            assert await app.client.tasks.paused() == (send.name,)
            await app.client.tasks.resume(send.name)
            assert await held.result(timeout=10) == "sent to ann"


async def test_a_renamed_task_is_paused_under_all_its_names() -> None:
    async with Harness(app):
        await app.client.tasks.pause("mail.frank")
        assert await app.client.tasks.paused() == ("mail.frank", "mail.stamp")
        await app.client.tasks.resume("mail.frank")
        assert await app.client.tasks.paused() == ()
