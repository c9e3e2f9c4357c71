"""Keys: what a job carries is encrypted before the store gets it."""

from __future__ import annotations

from pathlib import Path

from holdfast import App, Keyring

KEYS = Keyring({"2026-11": bytes(range(32)), "2026-05": bytes(range(32, 64))})


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_store_holds_nothing_that_can_be_read(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}", keys=KEYS)

    @app.task
    async def charge(card: str) -> str:
        return f"charged {card}"

    async with app:
        job = await charge.enqueue("4242-4242")
        async with app.worker() as worker:
            await worker.drain()
        assert await job.result() == "charged 4242-4242"
        assert b"4242-4242" not in everything_in(tmp_path)

    async with App(app.settings.url) as without_keys:
        shown = await without_keys.client.get(job.id)
        assert shown.args == shown.result == "encrypted (key 2026-11)"
