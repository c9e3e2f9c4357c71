"""Handlers for child processes: a child finds them by importing this module."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

from holdfast.context import Context
from holdfast.job.ends import Cancel, Fail, Snooze, Throttled, TryAgain
from holdfast.steps.streams import SyncStream


def add(a: int, b: int) -> int:
    return a + b


def pid() -> int:
    return os.getpid()


def wait_for(sign: str) -> None:
    while not Path(sign).exists():
        time.sleep(0.01)


def exit_at_once() -> None:
    os._exit(7)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def sleep_forever(note: str) -> None:
    """Deaf to everything but SIGKILL, like a call stuck in C."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(note).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


def nothing_json() -> object:
    return object()


def refuse() -> None:
    raise Fail("never again")


class Picky(Exception):
    """Cannot be pickled back: its constructor wants more than its message."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")


def picky() -> None:
    raise Picky(42, "no reason")


def withdraw() -> None:
    raise Cancel("the order was withdrawn")


TOMORROW = datetime(2999, 1, 1, tzinfo=UTC)


def tomorrow(counted: bool) -> None:
    raise TryAgain("not yet", at=TOMORROW) if counted else Snooze(until=TOMORROW)


def nap() -> None:
    raise Snooze(3600)


def throttle() -> None:
    raise Throttled(3600, "slow \ud800 down")


def report(ctx: Context) -> int:
    ctx.progress_sync(0.5, "half way", checkpoint={"at": 5})
    return ctx.attempt


def report_and_tell(ctx: Context) -> str:
    """Which answer this handler got, as what its context made of it."""
    try:
        ctx.progress_sync(0.5, "half way")
    except Exception as error:  # noqa: BLE001 - the test wants to know which
        return type(error).__name__
    return "kept"


def steps_and_sleep(ctx: Context, diary: str) -> list[int]:
    """Two steps around a sleep; the first attempt fails after all of them."""

    def note(n: int) -> int:
        with Path(diary).open("a") as file:
            file.write(f"{n}\n")
        return n

    first = ctx.step_sync("first", note, 1)
    ctx.sleep_sync("nap", hours=1)
    second = ctx.step_sync.using(lazy=True)("second", note, 2)
    if ctx.attempt == 1:
        raise ValueError("again")
    return [first, second]


def two_of_three(ctx: Context) -> list[str]:
    """Ask three people; the first attempt fails after that."""
    vote = ctx.invite("leads", of=["ann", "bob", "cyd"]).quorum_sync(2, timeout=3_600)
    if ctx.attempt == 1:
        raise ValueError("again")
    return [f"granted {vote.granted}", *(one.who for one in vote.votes)]


def two_signals(ctx: Context) -> list[int]:
    """Two waits; the first attempt fails after both of them."""
    first = ctx.signal_sync("paid", int)
    second = ctx.signal_sync("paid", int, timeout=3_600)
    if ctx.attempt == 1:
        raise ValueError("again")
    return [first, second]


def streams_tokens(ctx: Context) -> str:
    """Writes what only a later attempt finishes."""
    with ctx.stream_sync("tokens") as out:
        for token in "abc":
            out.write(token)
        if ctx.attempt == 1:
            raise ValueError("again")
        out.write({"n": 4})
    return out.text


def draft(out: SyncStream) -> str:
    for token in "abc":
        out.write(token)
    return out.text


def drafts(ctx: Context) -> str:
    """Writes frames inside of a step."""
    return ctx.step_sync("draft", draft, ctx.stream_sync("tokens"))
