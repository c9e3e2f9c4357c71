"""SIGTERM and SIGINT: the first asks the worker to leave, the second does not wait."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_by_signals(on_signal: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `on_signal` on the running loop for each signal; what was installed before is put
    back. Outside the main thread signals are somebody else's business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
