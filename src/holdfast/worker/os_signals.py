"""SIGTERM and SIGINT: the first asks to leave, the second does not wait. SIGHUP asks to leave too.

A program under `nohup` starts with SIGHUP ignored, and goes on ignoring it.

The interpreter writes the number of each signal into a pipe, and a thread reads the pipe. So a
signal is heard while the event loop is blocked, even in a call into C that never returns, when no
Python handler could run. If asyncio or uvloop had the interpreter write into a pipe of theirs, the
thread passes the numbers on to that pipe.

A signal to a forked child must not reach this worker: the child inherits the pipe, so a signal
meant for the child would stop its parent. So signals are held back while a fork happens, and the
child begins with the signal handlers of a new program. A task may install its own handlers for
these signals, and the worker would hear nothing any more. So once a second the worker checks that
the handlers are its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from holdfast.handlers.forks import part_from_parent

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CHECK_SECONDS = 1.0
"""Seconds between two checks that the signal handlers are the worker's own."""

OnSignal = Callable[[signal.Signals], None]


@contextmanager
def told_by_signals(on_signal: OnSignal, at_once: OnSignal | None = None) -> Iterator[None]:
    """Call `on_signal` on the running loop for each signal. The thread that heard the signal calls
    `at_once` before that, and this call must not wait for anything. In the end the signal handlers
    that were there before are put back. Outside the main thread nothing happens: a program's
    signals belong to its main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def tell(number: signal.Signals) -> None:
        if at_once is not None:
            at_once(number)
        with suppress(RuntimeError):  # the loop is closed: it has left already
            loop.call_soon_threadsafe(on_signal, number)

    ear = SignalEar(loop, tell)
    _ears.append(ear)
    try:
        yield
    finally:
        _ears.remove(ear)
        ear.close()


class SignalEar:
    """Hears the signals. Made, checked and closed in the main thread, where signals belong."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: OnSignal) -> None:
        self._loop = loop
        self._tell = tell
        before = {number: signal.getsignal(number) for number in SIGNALS}
        if before[signal.SIGHUP] is signal.SIG_IGN:
            del before[signal.SIGHUP]
        self._before = before
        self._out, self._in = os.pipe()
        os.set_blocking(self._in, False)
        self._other = -1  # the pipe that the interpreter wrote into before
        self._thread = threading.Thread(target=self._listen, name="holdfast-signals", daemon=True)
        self._thread.start()
        self._check_handlers()

    def close(self) -> None:
        self._timer.cancel()
        signal.set_wakeup_fd(self._other, warn_on_full_buffer=False)
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        os.write(self._in, b"\0")
        self._thread.join()
        self._close_pipe()

    def forget(self) -> None:
        """Called in a forked child, which has neither the thread nor the task of this ear."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.SIGHUP in self._before:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._in)
        os.close(self._out)

    def _check_handlers(self) -> None:
        self._listen_here()
        for number in self._before:
            if signal.getsignal(number) != self._handle:
                signal.signal(number, self._handle)
        self._timer = self._loop.call_later(CHECK_SECONDS, self._check_handlers)

    def _listen_here(self) -> bool:
        """Have the interpreter write into our pipe; returns whether it did before."""
        before = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        if before == self._in:
            return True
        self._other = before
        return False

    def _handle(self, number: int, frame: object) -> None:
        """The thread has heard this signal, unless the interpreter wrote into another pipe."""
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
                if number in self._before:
                    self._tell(signal.Signals(number))


# Forks --------------------------------------------------------------------------------------

_ears: list[SignalEar] = []
_held = threading.local()


def _hold_signals() -> None:
    """Between the fork and the child's first step, a signal to the child would be written into
    our pipe. Held back, it meets the handlers that the child has by then."""
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
