"""How a worker gets jobs on Postgres.

A claim starts its scan where `skip_points` says. If a queue gave less than was wanted, and a part
of it was skipped, the same call scans it again from its first row.

The reply of a claim may be lost: `lost_claims` says how the next claim finds what it took.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Collection, Sequence

import msgspec

from holdfast.job.ids import WorkerId
from holdfast.job.passing import total_name
from holdfast.job.record import MAY_BEGIN, Claimed
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.postgres import rows
from holdfast.store.postgres.admitting import Admitting
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.lost_claims import LATEST_COMMIT_SECONDS, LostClaims
from holdfast.store.postgres.node_facts import facts_of
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.skip_points import HIGHEST, LOWEST
from holdfast.store.postgres.wanted import Claim, still_wanted

LINES_WAIT = "+"
"""Stands before the name of a queue in which jobs with limits may begin (`told_of_queues.sql`)."""


class Scan(msgspec.Struct, frozen=True):
    """One scan: what it took, and the queues of which it skipped a part."""

    found: list[Record]
    skipped: frozenset[str]


class PostgresClaiming(JobVerbs):
    """See `holdfast.store.contract.claiming.Claiming` for what the verb promises."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        patience = connections.options.statement_timeout + LATEST_COMMIT_SECONDS
        self._lost_claims = LostClaims(patience)
        self._numbers = itertools.count(random.getrandbits(62))
        self._asked_for: tuple[Collection[str], ...] = ()
        self._limited = set[str]()
        """The queues in which jobs with limits may begin. Claims of plain jobs tell (`_heard`)."""
        self._ruled = dict[str, QueueSettings | None]()
        """The queues that have a total or let jobs age, which claims of plain jobs tell too. The
        rules of a queue that has only a total are remembered; None means that they must be read."""
        self._admitting = Admitting(connections)

    async def claim(
        self,
        worker: WorkerId,
        wants: Sequence[Want],
        tasks: Sequence[str],
        labels: Collection[str] = (),
        only: Collection[str] = (),
    ) -> list[Claimed]:
        wants = [want for want in wants if want.limit > 0]
        if not wants or not tasks:
            return []
        if self._asked_for != (known := (tuple(tasks), frozenset(labels), frozenset(only))):
            self._asked_for = known
            self._skip_points.forget()  # a job that was passed over may be for these tasks
            self._admitting.forget()
        if lost := self._lost_claims.of(worker):
            found = await self._connections.timed("jobs/lost_claims", worker, lost)
            if recovered := self._lost_claims.deliver(worker, lost, found, wants):
                return recovered
        asked = Claim(worker, list(tasks), sorted(set(labels)), sorted(set(only)), self._numbers)
        try:
            found = await (self._of_lines if asked.only else self._claim)(asked, wants)
            nodes = await facts_of(self._connections, found)
        except BaseException:
            # The caller hears nothing of what the statements before this one took either.
            for number in asked.numbers:
                self._lost_claims.add(worker, number)
            raise
        if nodes is None:
            return [rows.claimed(row) for row in found]
        return [rows.claimed(row, nodes.get(row["job_id"], MAY_BEGIN)) for row in found]

    async def _claim(self, asked: Claim, wants: Sequence[Want]) -> list[Record]:
        """First jobs with limits, for their share of each queue in which some are known to wait;
        then jobs without limits; then whatever fills the rest."""
        found: list[Record] = []
        known = self._ruled.copy()
        free = [want for want in wants if want.queue not in known] if known else wants
        for want in free:
            if want.queue in self._limited:
                found += await self._admitting.admit(asked, want, shared=True)
        found += await self._plain(asked, still_wanted(free, found))
        if self._limited:
            for want in still_wanted(free, found):
                if want.queue in self._limited:
                    found += await self._admitting.admit(asked, want)
        if self._ruled:  # also those that this claim was the first to hear of
            for want in still_wanted(wants, found):
                if want.queue in self._ruled:
                    found += await self._by_rules(asked, want)
        return found

    async def _of_lines(self, asked: Claim, wants: Sequence[Want]) -> list[Record]:
        """For a worker that takes nothing else: no claim of plain jobs tells where lines are."""
        found: list[Record] = []
        for want in wants:
            rules = await self._rules_of(want.queue)
            if rules.aging is not None:
                found += await self._by_age(asked, want, rules)
            else:
                found += await self._admitting.admit(asked, want)
        return found

    async def _plain(self, asked: Claim, wants: Sequence[Want]) -> list[Record]:
        scan = await self._scan(asked, wants)
        found = scan.found
        doubtful = [want for want in still_wanted(wants, found) if want.queue in scan.skipped]
        return found + (await self._scan(asked, doubtful)).found

    async def _by_rules(self, asked: Claim, want: Want) -> list[Record]:
        """Jobs of a queue that has a total, or lets jobs age. If the total that was remembered is
        gone, the claim tells so, and the rules are read again."""
        remembered = self._ruled.get(want.queue)
        rules = remembered or await self._read_rules(want.queue)
        if rules.aging is not None:
            return await self._by_age(asked, want, rules)
        if rules.max_running is None:
            self._ruled.pop(want.queue, None)
            return await self._claim(asked, [want])
        found = await self._of_total(asked, want)
        if remembered is not None and self._ruled.get(want.queue) is None:
            for left in still_wanted([want], found):
                found += await self._by_rules(asked, left)
        return found

    async def _read_rules(self, queue: str) -> QueueSettings:
        rules = await self._rules_of(queue)
        if rules.aging is None and rules.max_running is not None:
            await self._connections.timed("limits/make", [total_name(queue)])
            self._ruled[queue] = rules
        return rules

    async def _rules_of(self, queue: str) -> QueueSettings:
        for row in await self._connections.timed("queues/rules", queue):
            if row["lines_wait"]:
                self._limited.add(queue)
            return QueueSettings.from_json(row["settings"])
        return QueueSettings()

    async def _of_total(self, asked: Claim, want: Want) -> list[Record]:
        """In the order of `_claim`."""
        found: list[Record] = []
        if want.queue in self._limited:
            found += await self._admitting.admit(asked, want, shared=True)
        for left in still_wanted([want], found):
            found += await self._plain_of_total(asked, left)
        if want.queue in self._limited:
            for left in still_wanted([want], found):
                found += await self._admitting.admit(asked, left)
        return found

    async def _by_age(self, asked: Claim, want: Want, rules: QueueSettings) -> list[Record]:
        """The level that has waited longest for its priority goes first: a level is the jobs of one
        priority, those with limits apart."""
        found: list[Record] = []
        done = set[tuple[int, bool]]()  # levels that had nothing to give
        await self._connections.timed("limits/hear", want.queue)
        values = (want.queue, asked.tasks, asked.labels, rules.aging, asked.only)
        while left := still_wanted([want], found):
            rows = await self._connections.fetch("limits/levels", *values)
            levels = [row for row in rows if (row["priority"], row["plain"]) not in done]
            if not levels:
                break
            more = await self._of_level(asked, left[0], rules, levels)
            if not more:
                done.add((levels[0]["priority"], levels[0]["plain"]))
            found += more
        return found

    async def _of_level(
        self, asked: Claim, want: Want, rules: QueueSettings, levels: Sequence[Record]
    ) -> list[Record]:
        """The first jobs of the first level, up to those that are as old as the next level."""
        level = levels[0]["priority"]
        if not levels[0]["plain"]:
            return await self._admitting.admit(asked, Want(want.queue, 1, want.free), level=level)
        until = levels[1]["age"] if len(levels) > 1 else math.inf
        since = until - level * (rules.aging or 0.0)
        values = (want.queue, level, since, want.limit)
        [(count,)] = await self._connections.fetch("limits/as_old", *values)
        few = Want(want.queue, max(1, count), want.free)
        if rules.max_running is not None:
            return await self._plain_of_total(asked, few, (level, level))
        return await self._plain_of_level(asked, few, level)

    async def _plain_of_total(
        self, asked: Claim, want: Want, levels: tuple[int, int] = (LOWEST, HIGHEST)
    ) -> list[Record]:
        """One statement locks the total, takes the jobs and counts them."""
        wanted = self._of_levels(asked, want, levels)
        total = total_name(want.queue)
        found = await self._connections.timed("limits/claim_total", *wanted, total, again=False)
        return self._heard([want.queue], found)

    async def _plain_of_level(self, asked: Claim, want: Want, level: int) -> list[Record]:
        wanted = self._of_levels(asked, want, (level, level))
        found = await self._connections.timed("jobs/claim", *wanted, True, again=False)
        return self._heard([want.queue], found)

    def _of_levels(self, asked: Claim, want: Want, levels: tuple[int, int]) -> tuple[object, ...]:
        """What a claim of these priorities says of itself, without skip points."""
        number, stretch = asked.next_number(), ([levels[0]], [0], [levels[1]])
        queue = [want.queue]
        return (
            asked.worker,
            asked.tasks,
            number,
            queue,
            [want.limit],
            queue,
            *stretch,
            [want.free],
        )

    async def _scan(self, asked: Claim, wants: Sequence[Want]) -> Scan:
        if not wants:
            return Scan([], frozenset())
        began = time.monotonic()
        queues = [want.queue for want in wants]
        limits = [want.limit for want in wants]
        free = [want.free for want in wants]
        stretches = self._skip_points.stretches(queues, began)
        skipped = self._skip_points.queues
        number = asked.next_number()
        values = (asked.worker, asked.tasks, number, queues, limits, *stretches, free, False)
        found = await self._connections.timed("jobs/claim", *values, again=False)
        found = self._heard(queues, found)
        self._skip_points.learn(found, {want.queue for want in still_wanted(wants, found)})
        if not skipped:
            self._skip_points.scanned_all(began, time.monotonic())
        return Scan(list(found), skipped)

    def _heard(self, queues: Sequence[str], found: list[Record]) -> list[Record]:
        """The rows that are jobs. Every row also tells in which queues jobs with limits wait, and
        which queues have rules. If there is no job, one row without a job tells it."""
        self._limited.difference_update(queues)
        if not found or not (told := found[0]["told"]):
            return found
        for one in told:
            if one.startswith(LINES_WAIT):
                self._limited.add(one[1:])
            else:
                self._ruled[one[1:]] = None
        return [] if found[0]["job_id"] is None else found
