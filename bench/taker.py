"""`python -m bench.taker URL SECONDS UNITS`: a process that takes from one rate, call after call.

It says that it is ready, waits for a line, takes for so long, and prints how many calls were
granted and how long they took together.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench.program import on_fast_loop
from holdfast.app import App
from holdfast.store.contract.limits import Take

LIMIT = "wide"


async def take(url: str, seconds: float, units: int) -> None:
    app = App(url)
    async with app:
        await app.store.limits.take([Take(f"{LIMIT}:", units)])
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began, calls = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            [taken] = await app.store.limits.take([Take(f"{LIMIT}:", units)])
            if not taken.granted:
                raise RuntimeError(f"a take was not granted: {taken}")
            calls += 1
    print(json.dumps((calls, time.monotonic() - began)))


if __name__ == "__main__":
    on_fast_loop(take(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
