"""Coroutines that are run without an event loop, because nothing that they await ever waits.

So what has to be done is written once, for callers with a loop and for those without.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def run_without_loop(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine to its end that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    work.close()
    raise RuntimeError("what needs no loop has waited for one")
