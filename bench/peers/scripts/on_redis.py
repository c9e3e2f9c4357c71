"""A peer on Redis or Valkey: a plain connection that watches the end of a drain."""

from __future__ import annotations

from functools import cached_property

import redis

from bench.peers.scripts.peer import URL, Peer


class OnRedis(Peer):
    @cached_property
    def watching(self) -> redis.Redis:
        return redis.Redis.from_url(URL)
