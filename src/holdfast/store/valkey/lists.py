"""The lists of jobs, compared with the records of jobs.

The record of a job says where the job is. Sorted sets list the jobs of each place, and a recount
walks along them. If something other than holdfast wrote to either, the record counts: a list is
made to agree with the records, never the other way round.

A list that lacks a job does not show that. So the records are found by their keys, which takes a
look at every key of the server. Then the members of every list are compared with the records.

Ids and members are read by one call and judged by the next. Jobs move on in between, so the script
that judges asks record and lists again at one moment: a member that has left its list, and a job
that was removed, are no findings.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import msgspec

from holdfast.job.state import ENDED
from holdfast.store.contract.health import Looked
from holdfast.store.valkey.clients import Client
from holdfast.store.valkey.connection import ValkeyVerbs, batches

JOBS_AT_ONCE = 100
"""So many jobs a deep examination looks at by one script: the server does nothing else then."""
KEYS_AT_ONCE = 1_000

EACH_JOB_ONCE = frozenset({"live", *(f"ended:{state}" for state in ENDED)})
"""The lists that together name every job once. All their scores are equal."""
_BY_TIME = ("due", "timeouts", "deadlines", "expiry")
_BY_PLACE = ("live", "untimed", "ended", "ready", "limited", "held", "waits", "dead")
_OF_LINES = ("heads", "open", "parked")
_LISTS = frozenset((*_BY_TIME, *_BY_PLACE, *_OF_LINES))


class Compared(msgspec.Struct):
    """What was looked at, and what was wrong: ids of jobs, or the entry of a line.
    `repaired` counts jobs that are in their lists now, and members that were removed."""

    jobs: int = 0
    bodiless: set[bytes] = msgspec.field(default_factory=set[bytes])
    misplaced: set[bytes] = msgspec.field(default_factory=set[bytes])
    repaired: int = 0


class Lists(ValkeyVerbs):
    """Compares all records with all lists, some at a time. Workers may go on meanwhile."""

    async def compare(self, looked: Looked, *, repair: bool) -> Compared:
        found = Compared()
        lists: set[tuple[int, str]] = set()
        async for keys in self._keys():
            records: dict[int, list[str]] = {}
            for key in keys:
                partition, kind, name = self._parts(key)
                if kind == "s":
                    records.setdefault(partition, []).append(name.partition(":")[2])
                elif kind in _LISTS:
                    lists.add((partition, name))
            for partition, ids in records.items():
                for some in batches(ids, JOBS_AT_ONCE):
                    await self.check(partition, some, found, repair=repair)
        for partition, name in sorted(lists):
            async for members in self._members(partition, name):
                await self._compare_members(partition, name, members, found, repair=repair)
                if name in EACH_JOB_ONCE:
                    found.jobs += len(members)
                    looked(found.jobs)
        return found

    async def check(
        self, partition: int, ids: list[str], found: Compared, *, repair: bool = False
    ) -> None:
        given = {"chosen": ids, "repair": "1" if repair else ""}
        bodiless, misplaced, repaired = await self._connections.call(
            "health/check", partition, given
        )
        found.bodiless.update(bodiless)
        found.misplaced.update(misplaced)
        found.repaired += repaired

    async def _compare_members(
        self, partition: int, name: str, members: list[bytes], found: Compared, *, repair: bool
    ) -> None:
        chosen = [member.decode(errors="replace") for member in members]
        given = {"name": name, "chosen": chosen, "repair": "1" if repair else ""}
        call = self._connections.call
        misplaced, unread, surplus = await call("health/surplus", partition, given)
        found.misplaced.update(misplaced)
        found.bodiless.update(unread)
        found.repaired += surplus if repair else 0

    async def _members(self, partition: int, name: str) -> AsyncIterator[list[bytes]]:
        key = self._connections.key(partition, name)
        if name in EACH_JOB_ONCE:
            last = b""
            while True:
                ids = await self._connections.command(
                    "ZRANGEBYLEX", key, b"(" + last, "+", "LIMIT", 0, JOBS_AT_ONCE
                )
                yield ids
                # It does not wait for jobs that come meanwhile. Wrong scores spoil the order.
                if len(ids) < JOBS_AT_ONCE or ids[-1] <= last:
                    return
                last = ids[-1]
        cursor = 0
        while True:
            after, found = await self._connections.command(
                "ZSCAN", key, cursor, "COUNT", JOBS_AT_ONCE
            )
            is_paired = found and isinstance(found[0], tuple)  # the driver of a cluster does that
            members = [member for member, _ in found] if is_paired else found[::2]
            for some in batches(members, JOBS_AT_ONCE):
                yield some
            cursor = int(after)
            if cursor == 0:
                return

    async def _keys(self) -> AsyncIterator[list[bytes]]:
        """Every key of the namespace, on every node, by many short looks."""
        pattern = f"{{{self._connections.options.namespace}:*"
        if not self._connections.options.cluster:
            cursor: bytes | int = 0
            while cursor != b"0":
                cursor, keys = await self._connections.command(
                    "SCAN", cursor, "MATCH", pattern, "COUNT", KEYS_AT_ONCE
                )
                yield keys
            return
        for node in await self._connections.run(_primaries):
            at = 0
            while True:
                look = partial(_scan, at=at, pattern=pattern, node=node)
                at, keys = await self._connections.run(look)
                yield keys
                if at == 0:
                    break

    def _parts(self, key: bytes) -> tuple[int, str, str]:
        """The partition of a key, its kind, and its name within the partition."""
        tag, _, name = key.decode(errors="replace").partition("}:")
        partition = tag.rpartition(":")[2]
        return int(partition), name.partition(":")[0], name


async def _primaries(client: Client) -> list[object]:
    return list(client.get_primaries())


async def _scan(client: Client, at: int, pattern: str, node: object) -> tuple[int, list[bytes]]:
    cursors, keys = await client.scan(at, pattern, KEYS_AT_ONCE, target_nodes=node)
    [after] = cursors.values()
    return int(after), keys
