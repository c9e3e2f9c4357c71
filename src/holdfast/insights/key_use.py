"""Which keys the jobs of a store still need, so that a key can be removed when none does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import msgspec

from holdfast.job.record import Job
from holdfast.job.sealed import is_sealed, read_envelope, texts_of
from holdfast.schedule.model import Schedule
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store

LOOK = 20_000
LOOK_BATCH = 200
UNIQUE = "unique key"


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one key is needed for. `texts` counts jobs by what of them is encrypted with it."""

    kid: str
    live: int
    ended: int
    texts: dict[str, int]
    schedules: tuple[str, ...]


class KeyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The use of each key, as far as the walk came. `plain`: jobs that need no key at all."""

    keys: tuple[KeyUse, ...]
    plain: int
    looked_at: int
    next_cursor: str | None
    reached: datetime | None

    @property
    def complete(self) -> bool:
        return self.next_cursor is None


async def key_status(store: Store, look: int = LOOK, cursor: str | None = None) -> KeyStatus:
    """Look at so many jobs, newest first, and at all schedules. `store` is the one that holds what
    is encrypted as it is."""
    found, reached = _Found(), None
    for schedule in await store.schedules.find():
        found.add_schedule(schedule)
    while found.looked_at < look:
        page = await store.jobs.page(JobFilter(), min(LOOK_BATCH, look - found.looked_at), cursor)
        for job in await store.jobs.get([job.id for job in page.jobs]):
            found.add_job(job)
        reached = page.jobs[-1].created_at if page.jobs else reached
        cursor = page.next_cursor
        if cursor is None:
            break
    return found.status(cursor, reached)


class _Found:
    def __init__(self) -> None:
        self.looked_at = 0
        self._plain = 0
        self._live: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._texts: Counter[tuple[str, str]] = Counter()
        self._schedules: set[tuple[str, str]] = set()

    def add_job(self, job: Job) -> None:
        self.looked_at += 1
        needs = set(_needs(job))
        self._plain += not needs
        (self._ended if job.ended else self._live).update({kid for kid, _ in needs})
        self._texts.update(needs)

    def add_schedule(self, schedule: Schedule) -> None:
        for definition in filter(None, (schedule.definition, schedule.rival)):
            for text in (definition.args, definition.headers):
                if is_sealed(text):
                    self._schedules.add((read_envelope(text or "").kid, schedule.name))

    def status(self, cursor: str | None, reached: datetime | None) -> KeyStatus:
        kids = {*self._live, *self._ended, *(kid for kid, _ in self._schedules)}
        return KeyStatus(
            keys=tuple(self._use(kid) for kid in sorted(kids, reverse=True)),
            plain=self._plain,
            looked_at=self.looked_at,
            next_cursor=cursor,
            reached=None if cursor is None else reached,
        )

    def _use(self, kid: str) -> KeyUse:
        texts = {what: number for (of, what), number in self._texts.items() if of == kid}
        return KeyUse(
            kid=kid,
            live=self._live[kid],
            ended=self._ended[kid],
            texts=dict(sorted(texts.items())),
            schedules=tuple(sorted(name for of, name in self._schedules if of == kid)),
        )


def _needs(job: Job) -> Iterable[tuple[str, str]]:
    """The ids of keys, each with what of the job is encrypted with that key."""
    for what, text in texts_of(job).items():
        if is_sealed(text):
            yield read_envelope(text or "").kid, what.partition(" ")[0]
    parts = (job.unique_key or "").split(":")
    if parts[0] == "hmac" and len(parts) == 3:
        yield parts[1], UNIQUE
