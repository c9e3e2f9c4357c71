"""Breaks the connections of others."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncpg

from tests.support.pooled import direct


async def terminate_backends(url: str, count: int) -> int:
    """End so many connections to this database, chosen at random; returns how many."""
    name = urlsplit(url).path.lstrip("/")
    elsewhere = urlsplit(url)._replace(path="/postgres").geturl()
    connection = await asyncpg.connect(direct(elsewhere))
    try:
        ended = await connection.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = $1 order by random() limit $2",
            name,
            count,
        )
    finally:
        await connection.close()
    return len(ended)
