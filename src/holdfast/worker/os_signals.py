"""SIGTERM and SIGINT: the first asks to leave, the second does not wait.

The interpreter writes the number of each signal into a pipe, and a thread reads it. So a signal
is heard while the event loop is blocked, even in a call into C that never returns, when no
Python handler could run. What reads the loop's own pipe (asyncio's and uvloop's handlers) gets
the numbers passed on.

A forked child must not be heard: it inherits the pipe, and a signal meant for the child would
stop its parent. So signals wait while a fork happens, and the child begins with the handlers
that a new program has. A handler that installs its own handlers for these signals would make
the worker deaf; they are looked after once a second.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from holdfast.handlers.forks import part_from_parent

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_EVERY = 1.0
"""Seconds between two looks whether the handlers are still ours."""

OnSignal = Callable[[signal.Signals], None]


@contextmanager
def told_by_signals(on_signal: OnSignal, at_once: OnSignal | None = None) -> Iterator[None]:
    """Call `on_signal` on the running loop for each signal; what was installed before is put
    back. `at_once` is called before that, from the thread that heard it: it must not wait for
    anything. Outside the main thread signals are somebody else's business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def tell(number: signal.Signals) -> None:
        if at_once is not None:
            at_once(number)
        with suppress(RuntimeError):  # the loop is closed: it has left already
            loop.call_soon_threadsafe(on_signal, number)

    ear = Ear(loop, tell)
    _ears.append(ear)
    try:
        yield
    finally:
        _ears.remove(ear)
        ear.close()


class Ear:
    """Made, looked after and closed in the main thread, where signals belong."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: OnSignal) -> None:
        self._loop = loop
        self._tell = tell
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self._out, self._in = os.pipe()
        os.set_blocking(self._in, False)
        self._other = -1  # whoever wanted to be woken by signals before us
        self._thread = threading.Thread(target=self._listen, name="holdfast-signals", daemon=True)
        self._thread.start()
        self._look_after()

    def close(self) -> None:
        self._timer.cancel()
        signal.set_wakeup_fd(self._other, warn_on_full_buffer=False)
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        os.write(self._in, b"\0")
        self._thread.join()
        self._close_pipe()

    def forget(self) -> None:
        """In a forked child, which has neither our thread nor our task."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._in)
        os.close(self._out)

    def _look_after(self) -> None:
        self._listen_here()
        for number in SIGNALS:
            if signal.getsignal(number) != self._handle:
                signal.signal(number, self._handle)
        self._timer = self._loop.call_later(LOOK_EVERY, self._look_after)

    def _listen_here(self) -> bool:
        """Whether we already did."""
        before = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        if before == self._in:
            return True
        self._other = before
        return False

    def _handle(self, number: int, frame: object) -> None:
        """The thread has heard it, unless somebody had the interpreter write elsewhere."""
        if not self._listen_here():
            self._tell(signal.Signals(number))

    def _listen(self) -> None:
        while True:
            numbers = os.read(self._out, 64)
            if self._other >= 0:
                with suppress(OSError):
                    os.write(self._other, numbers)
            for number in numbers:
                if number == 0:
                    return
                if number in SIGNALS:
                    self._tell(signal.Signals(number))


# Forks --------------------------------------------------------------------------------------

_ears: list[Ear] = []
_held = threading.local()


def _hold_signals() -> None:
    """Between the fork and the child's first step a signal to the child would be written into
    our pipe: held back, it meets the handlers that the child then has."""
    if _ears:
        _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _release_signals() -> None:
    mask, _held.mask = getattr(_held, "mask", None), None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _begin_anew() -> None:
    if _ears:
        part_from_parent()
    while _ears:
        _ears.pop().forget()
    _release_signals()


os.register_at_fork(
    before=_hold_signals, after_in_parent=_release_signals, after_in_child=_begin_anew
)
