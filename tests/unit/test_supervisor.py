"""The supervisor keeps loops alive and ends them together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.background import supervisor as supervisor_module
from holdfast.background.supervisor import Supervisor
from holdfast.events import Event, Events
from tests.support.leaks import nothing_leaks

SOON = 5.0
Run = Callable[[asyncio.Event], Awaitable[None]]


class Scripted:
    """A loop whose runs follow a script; the last entry repeats."""

    def __init__(self, name: str, *runs: Run) -> None:
        self.name = name
        self.started = 0
        self.going = asyncio.Event()
        self._runs = runs

    async def run(self, stop: asyncio.Event) -> None:
        run = self._runs[min(self.started, len(self._runs) - 1)]
        self.started += 1
        self.going.set()
        await run(stop)


class Seen:
    """Collects events; `first(name)` waits for one."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.events = Events(self._add)
        self._added = asyncio.Event()

    def _add(self, event: Event) -> None:
        self.all.append(event)
        self._added.set()

    def named(self, name: str) -> list[Event]:
        return [event for event in self.all if event.name == name]

    async def first(self, name: str) -> Event:
        while not self.named(name):
            self._added.clear()
            await asyncio.wait_for(self._added.wait(), SOON)
        return self.named(name)[0]


async def until_told(stop: asyncio.Event) -> None:
    await stop.wait()


async def raise_at_once(stop: asyncio.Event) -> None:
    raise RuntimeError("a bug in the loop")


async def return_at_once(stop: asyncio.Event) -> None:
    return


async def hear_nothing(stop: asyncio.Event) -> None:
    await asyncio.Event().wait()


async def await_something_cancelled(stop: asyncio.Event) -> None:
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    lost.cancel()
    await lost


async def until_running(loop: Scripted, runs: int) -> None:
    while loop.started < runs:
        loop.going.clear()
        await asyncio.wait_for(loop.going.wait(), SOON)


@pytest.mark.parametrize(
    ("death", "cause"),
    [
        (raise_at_once, "RuntimeError: a bug in the loop"),
        (return_at_once, "returned without being asked to stop"),
        (await_something_cancelled, "CancelledError: something it awaited was cancelled"),
    ],
)
async def test_a_loop_that_dies_is_reported_and_restarted(death: Run, cause: str) -> None:
    seen, loop = Seen(), Scripted("mortal", death, until_told)
    supervisor = Supervisor([loop], seen.events, first_restart=0.001)
    await supervisor.start()
    await until_running(loop, 2)
    await supervisor.stop()
    died = await seen.first("service.died")
    assert died.fields == {"service": "mortal", "error": cause, "restart_in": 0.001}
    assert supervisor.restarts == {"mortal": 1}
    assert supervisor.stragglers == ()


async def test_restarts_come_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()

    async def no_wait(seconds: float, *events: asyncio.Event) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(supervisor_module, "pause", no_wait)
    loop = Scripted("mortal", *[raise_at_once] * 6, until_told)
    supervisor = Supervisor([loop], seen.events, first_restart=1.0, longest_restart=10.0)
    await supervisor.start()
    await until_running(loop, 7)
    await supervisor.stop()
    waits = [event.fields["restart_in"] for event in seen.named("service.died")]
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


async def test_the_death_of_one_loop_leaves_the_others_alone() -> None:
    mortal, sound = Scripted("mortal", raise_at_once, until_told), Scripted("sound", until_told)
    supervisor = Supervisor([mortal, sound], Events(), first_restart=0.001)
    await supervisor.start()
    await until_running(mortal, 2)
    await supervisor.stop()
    assert sound.started == 1


async def test_all_loops_are_told_to_stop_at_the_same_moment() -> None:
    heard: list[str] = []
    all_heard = asyncio.Event()

    def slow_to_end(name: str) -> Run:
        async def run(stop: asyncio.Event) -> None:
            await stop.wait()
            heard.append(name)
            if len(heard) == 3:
                all_heard.set()
            await all_heard.wait()  # a serial shutdown would wait here for ever

        return run

    loops = [Scripted(name, slow_to_end(name)) for name in ("a", "b", "c")]
    supervisor = Supervisor(loops, Events(), grace=SOON)
    await supervisor.start()
    await until_running(loops[-1], 1)
    await supervisor.stop()
    assert sorted(heard) == ["a", "b", "c"]
    assert supervisor.stragglers == ()


async def test_what_does_not_stop_within_the_grace_is_cancelled_and_named() -> None:
    seen = Seen()
    loops = [Scripted("deaf", hear_nothing), Scripted("sound", until_told)]
    supervisor = Supervisor(loops, seen.events, grace=0.01)
    async with nothing_leaks():
        await supervisor.start()
        await until_running(loops[0], 1)
        await supervisor.stop()
    assert supervisor.stragglers == ("deaf",)
    fields = (await seen.first("supervisor.did_not_stop")).fields
    assert fields["cancelled"] == ("deaf",)
    assert fields["still_running"] == ()


async def test_a_loop_that_resists_its_cancellation_is_named_as_still_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor_module, "CANCEL_GRACE_SECONDS", 0.01)
    released = asyncio.Event()

    async def resist(stop: asyncio.Event) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    seen, loop = Seen(), Scripted("stubborn", resist)
    supervisor = Supervisor([loop], seen.events, grace=0.01)
    async with nothing_leaks():
        await supervisor.start()
        await until_running(loop, 1)
        await supervisor.stop()
        released.set()
    fields = (await seen.first("supervisor.did_not_stop")).fields
    assert fields["still_running"] == ("stubborn",)


async def test_start_and_stop_are_safe_to_call_twice() -> None:
    loop = Scripted("loop", until_told)
    supervisor = Supervisor([loop], Events())
    async with nothing_leaks():
        await supervisor.stop()
        await supervisor.start()
        await supervisor.start()
        await until_running(loop, 1)
        await asyncio.gather(supervisor.stop(), supervisor.stop())
        await supervisor.stop()
    assert loop.started == 1


async def test_a_stop_right_after_the_start_is_seen() -> None:
    supervisor = Supervisor([Scripted("loop", until_told)], Events(), grace=SOON)
    await supervisor.start()
    await asyncio.wait_for(supervisor.stop(), SOON / 2)
    assert supervisor.stragglers == ()


async def test_a_stopped_supervisor_can_start_again() -> None:
    loop = Scripted("loop", until_told)
    supervisor = Supervisor([loop], Events())
    for runs in (1, 2):
        await supervisor.start()
        await until_running(loop, runs)
        await supervisor.stop()
    assert loop.started == 2


async def test_a_stop_interrupts_the_wait_before_a_restart() -> None:
    seen = Seen()
    supervisor = Supervisor([Scripted("mortal", raise_at_once)], seen.events, first_restart=60)
    await supervisor.start()
    await seen.first("service.died")
    await asyncio.wait_for(supervisor.stop(), SOON)
    assert supervisor.stragglers == ()


async def test_a_stop_that_is_cancelled_leaves_nothing_running() -> None:
    loop = Scripted("deaf", hear_nothing)
    supervisor = Supervisor([loop], Events(), grace=60)
    async with nothing_leaks():
        await supervisor.start()
        await until_running(loop, 1)
        stopping = asyncio.create_task(supervisor.stop())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        assert stopping.cancelled()
