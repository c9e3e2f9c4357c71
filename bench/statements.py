"""How many statements an idle worker sends, counted where nothing is changed by counting.

Postgres logs every statement of the one database that is asked to. Valkey's MONITOR shows every
command, and which of them a script sent itself. SQLite has no server: see `sqlite_trace`.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from redis.asyncio import Redis

from bench.places import OnPostgres, OnValkey


async def sent_to_postgres(place: OnPostgres, seconds: float) -> float:
    """Per second, by a log that `log_statements` turned on."""
    before = place.statements_logged()
    await asyncio.sleep(seconds)
    return (place.statements_logged() - before) / seconds


async def sent_to_valkey(place: OnValkey, seconds: float) -> float:
    """Per second. What a script calls is part of the one command that called the script."""
    parts = urlsplit(place.url)
    client = Redis(
        host=parts.hostname or "localhost", port=parts.port or 6379, protocol=2, socket_timeout=None
    )
    count = 0
    try:
        async with client.monitor() as monitor:
            try:
                async with asyncio.timeout(seconds):
                    while True:
                        command = await monitor.next_command()
                        count += command["client_type"] != "lua"
            except TimeoutError:
                return count / seconds
    finally:
        await client.aclose()
