"""How a worker gets jobs on Postgres.

A claim starts its scan where `skip_points` says. If a queue gave less than was wanted, and a part
of it was skipped, the same call scans it again from its first row.

The reply of a claim may be lost: `lost_claims` says how the next claim finds what it took.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Collection, Sequence
from operator import itemgetter

import msgspec

from holdfast.flow.inputs import decode_inputs, only_results
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import total_name
from holdfast.job.record import MAY_BEGIN, Claimed, NodeFacts
from holdfast.job.ties import NODE
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.lost_claims import LATEST_COMMIT_SECONDS, LostClaims
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.skip_points import HIGHEST, LOWEST, Point, SkipPoints

_ties = itemgetter("ties")

LINES_WAIT = "+"
"""Stands before the name of a queue in which jobs with limits may begin (`told_of_queues.sql`)."""
WIDER, WIDENED_AT_MOST = 4, 5
"""A claim that meets jobs which have to wait looks at so many times more, and so often. Others are
left to the next claim."""


class Scan(msgspec.Struct, frozen=True):
    """One scan: what it took, and the queues of which it skipped a part."""

    found: list[Record]
    skipped: frozenset[str]


class Claim(msgspec.Struct, frozen=True):
    """What a worker asks for, and the numbers of the statements so far that may have given it
    jobs."""

    worker: WorkerId
    tasks: list[str]
    labels: list[str]
    only: list[str]
    numbers: list[int]


class PostgresClaiming(JobVerbs):
    """See `holdfast.store.contract.claiming.Claiming` for what the verb promises."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        patience = connections.options.statement_timeout + LATEST_COMMIT_SECONDS
        self._lost_claims = LostClaims(patience)
        self._last_number = random.getrandbits(62)
        self._asked_for: tuple[Collection[str], ...] = ()
        self._limited = set[str]()
        """The queues in which jobs with limits may begin. A claim of jobs without limits tells."""
        self._line_points = _line_points()
        self._ruled = dict[str, QueueSettings | None]()
        """The queues that have a total or let jobs age, as far as that is known; told in the same
        way. With the rules of those that have a total alone, or None: they have to be read."""

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
            self._line_points.forget()
        if lost := self._lost_claims.of(worker):
            found = await self._connections.timed("jobs/lost_claims", worker, lost)
            if recovered := self._lost_claims.deliver(worker, lost, found, wants):
                return recovered
        numbers: list[int] = []
        try:
            asked = Claim(worker, list(tasks), sorted(set(labels)), sorted(set(only)), numbers)
            found = await (self._of_lines if asked.only else self._claim)(asked, wants)
            nodes = await self._facts(found)
        except BaseException:
            # The caller hears nothing of what the statements before this one took either.
            for number in numbers:
                self._lost_claims.add(worker, number)
            raise
        if nodes is None:
            return [rows.claimed(row) for row in found]
        return [rows.claimed(row, nodes.get(row["job_id"], MAY_BEGIN)) for row in found]

    async def _claim(self, asked: Claim, wants: Sequence[Want]) -> list[Record]:
        """Jobs with limits have a part of their queues, as far as such jobs are known to wait; then
        come those without limits, and then whatever fills the rest."""
        found: list[Record] = []
        known = self._ruled.copy()
        free = [want for want in wants if want.queue not in known] if known else wants
        for want in free:
            if want.queue in self._limited:
                found += await self._admit(asked, want, shared=True)
        found += await self._plain(asked, _still_wanted(free, found))
        if self._limited:
            for want in _still_wanted(free, found):
                if want.queue in self._limited:
                    found += await self._admit(asked, want)
        if self._ruled:  # also those that this claim was the first to hear of
            for want in _still_wanted(wants, found):
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
                found += await self._admit(asked, want)
        return found

    async def _plain(self, asked: Claim, wants: Sequence[Want]) -> list[Record]:
        scan = await self._scan(asked, wants)
        found = scan.found
        doubtful = [want for want in _still_wanted(wants, found) if want.queue in scan.skipped]
        return found + (await self._scan(asked, doubtful)).found

    async def _by_rules(self, asked: Claim, want: Want) -> list[Record]:
        """Jobs of a queue that has a total, or lets jobs age. A claim by a total that was
        remembered and is gone tells so, and the rules are read."""
        remembered = self._ruled.get(want.queue)
        rules = remembered or await self._read_rules(want.queue)
        if rules.aging is not None:
            return await self._by_age(asked, want, rules)
        if rules.max_running is None:
            self._ruled.pop(want.queue, None)
            return await self._claim(asked, [want])
        found = await self._of_total(asked, want)
        if remembered is not None and self._ruled.get(want.queue) is None:
            for left in _still_wanted([want], found):
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
            found += await self._admit(asked, want, shared=True)
        for left in _still_wanted([want], found):
            found += await self._plain_of_total(asked, left)
        if want.queue in self._limited:
            for left in _still_wanted([want], found):
                found += await self._admit(asked, left)
        return found

    async def _by_age(self, asked: Claim, want: Want, rules: QueueSettings) -> list[Record]:
        """The level that has waited longest for its priority goes first: a level is the jobs of one
        priority, those with limits apart."""
        found: list[Record] = []
        done = set[tuple[int, bool]]()  # levels that had nothing to give
        await self._connections.timed("limits/hear", want.queue)
        values = (want.queue, asked.tasks, asked.labels, rules.aging, asked.only)
        while left := _still_wanted([want], found):
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
            return await self._admit(asked, Want(want.queue, 1, want.free), level=level)
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
        number, stretch = self._next_number(asked.numbers), ([levels[0]], [0], [levels[1]])
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

    async def _facts(self, found: Sequence[Record]) -> dict[str, NodeFacts] | None:
        """What a worker needs of the nodes among these jobs, without those that may simply begin;
        None if there are no nodes."""
        if not any(map(_ties, found)):
            return None
        nodes = [row["job_id"] for row in found if row["ties"] & NODE]
        if not nodes:
            return None
        return _node_facts(await self._connections.fetch("flows/facts", ",".join(nodes)))

    async def _admit(
        self, asked: Claim, want: Want, *, shared: bool = False, level: int | None = None
    ) -> list[Record]:
        """Jobs with limits of one queue. One call gives the lines one turn each, and locks their
        buckets in order; so there is a call for each turn, until one gives nothing that has skipped
        no line."""
        points = self._line_points if level is None else _line_points()
        found: list[Record] = []
        widened = 0
        while len(found) < want.limit and widened <= WIDENED_AT_MOST:
            began = time.monotonic()
            _, from_priorities, places, to_priorities = points.stretches([want.queue], began)
            skipped = points.queues
            skips = want.queue in skipped
            look = want.limit * WIDER**widened
            limit, free = want.limit - len(found), max(0, want.free - len(found))
            given = await self._connections.timed(
                "limits/admit",
                asked.worker,
                asked.tasks,
                self._next_number(asked.numbers),
                want.queue,
                limit,
                free,
                shared,
                look,
                self._channel,
                asked.labels,
                level,
                asked.only,
                from_priorities,
                [turn for turn, _ in places],
                [number for _, number in places],
                to_priorities,
                again=False,
            )
            some_wait = bool(given) and given[-1]["job_id"] is None
            if some_wait:
                given.pop()
                widened += 1
            found += given
            short = len(given) < limit and not (shared and given)
            points.learn(given, [want.queue] if short else ())
            if not skipped:  # or what other queues skip would be remembered for longer
                points.scanned_all(began, time.monotonic())
            if not some_wait and (shared if given else not skips):
                break
        return found

    def _next_number(self, numbers: list[int]) -> int:
        self._last_number += 1
        numbers.append(self._last_number)
        return self._last_number

    async def _scan(self, asked: Claim, wants: Sequence[Want]) -> Scan:
        if not wants:
            return Scan([], frozenset())
        began = time.monotonic()
        queues = [want.queue for want in wants]
        limits = [want.limit for want in wants]
        free = [want.free for want in wants]
        stretches = self._skip_points.stretches(queues, began)
        skipped = self._skip_points.queues
        number = self._next_number(asked.numbers)
        values = (asked.worker, asked.tasks, number, queues, limits, *stretches, free, False)
        found = await self._connections.timed("jobs/claim", *values, again=False)
        found = self._heard(queues, found)
        self._skip_points.learn(found, {want.queue for want in _still_wanted(wants, found)})
        if not skipped:
            self._skip_points.scanned_all(began, time.monotonic())
        return Scan(list(found), skipped)

    def _heard(self, queues: Sequence[str], found: list[Record]) -> list[Record]:
        """Jobs alone. Every row also tells where jobs with limits wait, and which queues have
        rules; if there are no jobs, a row without one does."""
        self._limited.difference_update(queues)
        if not found or not (told := found[0]["told"]):
            return found
        for one in told:
            if one.startswith(LINES_WAIT):
                self._limited.add(one[1:])
            else:
                self._ruled[one[1:]] = None
        return [] if found[0]["job_id"] is None else found


def _line_points() -> SkipPoints:
    """Where the lines of jobs with limits begin. A line that was parked comes back to its old
    place: if another store lets it go on, it is found as late as a job that was handed back."""
    return SkipPoints(_first_line, (0, 0))


def _first_line(job: Record) -> Point:
    """The first line that the claim of this job saw in the same priority."""
    return job["queue"], job["priority"], (job["first_turn"], job["first_line"])


def _node_facts(told: Sequence[Record]) -> dict[str, NodeFacts]:
    """A node that takes the result of one other node, and no more, gets it with its facts."""
    results: dict[str, str] = {row[0]: row[4] for row in told if row[2] is None}
    facts = {}
    for job, inputs, closing, upstream, _ in told:
        if closing is None:
            continue
        alone = upstream is not None and only_results(decode_inputs(inputs)) == [upstream]
        given = {JobId(upstream): results.get(upstream)} if alone else None
        facts[job] = NodeFacts(inputs, closing, given)
    return facts


def _still_wanted(wants: Sequence[Want], found: Sequence[Record]) -> list[Want]:
    if len(found) == sum(want.limit for want in wants):
        return []
    got: dict[str, int] = {}
    for row in found:
        got[row["queue"]] = got.get(row["queue"], 0) + 1
    return [
        Want(
            want.queue,
            want.limit - got.get(want.queue, 0),
            max(0, want.free - got.get(want.queue, 0)),
        )
        for want in wants
        if want.limit > got.get(want.queue, 0)
    ]
