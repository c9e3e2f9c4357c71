"""A worker without signing keys says at its start which of its tasks will need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import App, Context
from holdfast.encryption.keyring import KEY_BYTES, Keyring
from holdfast.events import Event

KEYS = Keyring({"k": b"1" * KEY_BYTES})


class Team:
    async def invite(self, *who: str) -> None:
        """Has nothing to do with `ctx.invite`."""


def office(**settings: Any) -> tuple[App, list[Event]]:
    app, told = App("sqlite://", **settings), list[Event]()

    @app.task(name="directly")
    async def directly(ctx: Context, who: str) -> bool:
        return (await ctx.invite("ok", of=[who]).quorum(1)).granted

    @app.task(name="in-a-thread")
    def in_a_thread(who: str, *, context: Context) -> bool:
        def ask() -> bool:
            return context.invite("ok", of=[who]).quorum_sync(1).granted

        return ask()

    @app.task(name="of-another")
    async def of_another(ctx: Context, team: str) -> None:
        await Team().invite(team, ctx.job.id)

    @app.task(name="without-context")
    async def without_context(who: str) -> None:
        await Team().invite(who)

    app.events.subscribe(only("worker.no_signing_keys", told.append))
    return app, told


def only(name: str, tell: Callable[[Event], None]) -> Callable[[Event], None]:
    return lambda event: tell(event) if event.name == name else None


async def test_a_worker_without_keys_names_the_tasks_that_ask_people() -> None:
    app, told = office()
    async with app, app.worker():
        pass
    [event] = told
    assert event.fields["tasks"] == ["directly", "in-a-thread"]
    assert "HOLDFAST_SIGNING_KEYS" in str(event.fields["advice"])


async def test_a_worker_with_keys_has_nothing_to_tell() -> None:
    app, told = office(signing_keys=KEYS)
    async with app, app.worker():
        pass
    assert told == []
