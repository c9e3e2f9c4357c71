"""The arithmetic of buckets: how much room one has, what a job takes, gives back and settles, and
when there is room again.

The scripts of Postgres and Valkey say the same in their languages; the state machine of
`tests/properties` holds all three to one model. Times are microseconds of the store's clock, and
all arithmetic is in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec

from holdfast.job.passing import MOST_COUNTED, split_bucket
from holdfast.job.transition import Settles
from holdfast.limits import rates
from holdfast.limits.alarms import ALONE, UNTOLD, after_telling, due, raised
from holdfast.limits.model import Alarm, Budget, Concurrency, Rate, Settings

ROOMY = MOST_COUNTED
"""The room of a bucket that holds nothing up."""


class Bucket(msgspec.Struct):
    """One bucket while a verb looks at it.

    `has_own`: it has settings of its own, an override. `in_use`: what the leases that name it cost.
    `needs`: what the first job of the first line costs that is parked here and can ever pass.
    A budget has `spent` so much in the period that began at `since`, less what operators added to
    it in this period: that is `slices[since]`. The meter of a rate with a burst stood at `spent` at
    the moment `since`, and a permit had `scale` parts. A window has counted `slices` by their
    numbers, each `scale` long.
    """

    name: str
    settings: Settings | None
    has_own: bool = False
    retired: bool = False
    in_use: int = 0
    shut_until: int | None = None
    has_waiting: bool = False
    needs: int | None = None
    spent: int = 0
    since: int = 0
    scale: int = 0
    slices: dict[int, int] = msgspec.field(default_factory=dict[int, int])
    alarms: int = 0

    # How much may begin ------------------------------------------------------------------------

    def room(self, now: int, *, is_parent: bool = False) -> int:
        """How much may begin for jobs that come behind all who are parked here: nothing while the
        first of those needs more than is free, so that small jobs do not keep a big one waiting
        for ever. For a line whose turn is before theirs, all that is `free`."""
        free = self.free(now, is_parent=is_parent)
        waits = self.has_waiting and self.needs is not None and self.needs > free
        return 0 if waits else free

    def free(self, now: int, *, is_parent: bool = False) -> int:
        """How much is not taken. A limit that is not defined has nothing: it must not be passed
        because somebody misspelt it. A bucket that leads to another one of the job holds nothing
        up unless it has settings of its own."""
        if self.retired:
            return ROOMY
        if self.settings is None or self.is_shut(now):
            return 0
        if is_parent and not self.has_own:
            return ROOMY
        return max(0, self._left(now))

    def _left(self, now: int) -> int:
        match self.settings:
            case Concurrency(most):
                return most - self.in_use
            case Rate(burst=None) as rate:
                return rate.most - sum(self._window(rate, now).values())
            case Rate() as rate:
                return (rate.largest * rate.permit - self._meter(rate, now)) // rate.permit
            case Budget(hard) as budget:
                return hard - self._spent(budget, now) - self.in_use
            case None:
                return 0
        assert_never(self.settings)

    def is_shut(self, now: int) -> bool:
        return self.shut_until is not None and self.shut_until > now

    def largest(self, now: int) -> int:
        """The largest cost that can ever pass: in this period, of a budget that was topped up."""
        if self.retired or self.settings is None:
            return ROOMY
        if self.spent < 0 and isinstance(self.settings, Budget):
            return self.settings.hard - self._spent(self.settings, now)
        return self.settings.largest

    def most_passing(self, now: int) -> int:
        """A job that costs more stands aside. Where nothing passes at all, no job does."""
        return self.largest(now) or ROOMY

    def never_fits(self, cost: int, now: int, *, is_parent: bool = False) -> bool:
        """Whether a job costs more than the bucket ever lets pass."""
        return cost > self.largest(now) and not (is_parent and not self.has_own)

    def need_of(self, cost: int, *, is_parent: bool) -> int:
        """What a job needs to go on that waits here and costs so much. A job for which the bucket
        only leads to another one waits for the end of a drain, and needs nothing."""
        only_leads = is_parent and not self.has_own and self.settings is not None
        return 0 if only_leads else cost

    def opens_at(self, now: int, cost: int = 1) -> int | None:
        """When so much will be free; None where time alone does not bring it."""
        if self.retired or (not self.is_shut(now) and self.free(now) >= cost):
            return now
        if self.settings is None or self.never_fits(cost, now):
            return None
        opens = self._opens_at(now, cost) if cost else now
        if opens is None or self.shut_until is None:
            return opens
        return max(opens, self.shut_until)

    def _opens_at(self, now: int, cost: int) -> int | None:
        """Without regard to a drain."""
        match self.settings:
            case Concurrency(most):
                return now if most - self.in_use >= cost else None
            case Rate(burst=None) as rate:
                return rates.opens_at(rate, self._window(rate, now), now, cost)
            case Rate() as rate:
                over = self._meter(rate, now) + (cost - rate.largest) * rate.permit
                return now + max(0, -(-over // rate.growth))
            case Budget(hard) as budget:
                if self._spent(budget, now) + self.in_use + cost <= hard:
                    return now
                return budget.period(now).end
            case None:
                return None
        assert_never(self.settings)

    # The state of the kinds, brought up to now -------------------------------------------------

    def _window(self, rate: Rate, now: int) -> dict[int, int]:
        return rates.window(rate, self.slices, self.scale, now)

    def _meter(self, rate: Rate, now: int) -> int:
        return rates.meter(rate, self.spent, self.scale, now - self.since)

    def _spent(self, budget: Budget, now: int) -> int:
        return self.spent if self.since >= budget.period(now).start else 0

    def _catch_up(self, now: int) -> None:
        """Begin a new period, forget what has left the window, drain the meter. A window has no
        meter and a meter no slices: if the burst of a rate is dropped or set, the books that were
        kept until then would later be read by the other's `scale`."""
        match self.settings:
            case Rate(burst=None) as rate:
                self.slices, self.scale = self._window(rate, now), rate.slice
                self.spent = 0
            case Rate() as rate:
                self.spent, self.scale = self._meter(rate, now), rate.permit
                self.since = max(self.since, now)  # no time drains a meter twice
                self.slices = {}
            case Budget() as budget:
                start = budget.period(now).start  # before `since` if the clock was set back
                if self.since < start:
                    self.spent, self.alarms, self.since = 0, 0, start
            case _:
                pass

    # What jobs and calls do to it --------------------------------------------------------------

    def take(self, units: int, now: int, *, is_parent: bool = False) -> None:
        """Count what begins in the kind's own books; `in_use` is the lease's part."""
        if type(self.settings) is Concurrency:
            return
        self._catch_up(now)
        match self.settings:
            case Rate(burst=None) as rate:
                newest = now // rate.slice
                self.slices[newest] = self.slices.get(newest, 0) + units
            case Rate() as rate:
                self.spent += units * rate.permit
            case Budget() if not is_parent:
                self.alarms |= ALONE
            case _:
                pass
        self._notice()

    def untake(self, units: int, taken_at: int, now: int) -> None:
        """What was taken then has not begun after all: a rate lets another begin instead. What has
        come back by itself since then is not given back again."""
        self._catch_up(now)
        match self.settings:
            case Rate(burst=None) as rate:
                rates.uncount(self.slices, taken_at // rate.slice, units)
            case Rate() as rate:
                grown = rate.growth * max(0, now - taken_at)
                self.spent -= min(self.spent, max(0, units * rate.permit - grown))
            case _:
                pass

    def spend(self, units: int, now: int, *, is_parent: bool = False) -> None:
        """Add to what a budget has spent; less than 0 gives it back."""
        if isinstance(self.settings, Budget) and not self.retired:
            self._catch_up(now)
            self.spent = max(-MOST_COUNTED, min(MOST_COUNTED, self.spent + units))
            if not is_parent:
                self.alarms |= ALONE
            self._notice()

    def adjust(self, amount: int, now: int) -> None:
        """An operator lets so much more be spent in this period. It is taken from what was spent,
        so that nobody who counts has to know of it, and noted in the slice of the period."""
        if self.retired:
            return
        self.spend(-amount, now, is_parent=True)  # it is not passed by this
        added = self.slices.get(self.since, 0) + amount
        self.slices = {self.since: max(-MOST_COUNTED, min(MOST_COUNTED, added))}

    def settle(
        self,
        cost: int,
        reported: int | None,
        how: Settles,
        claimed_at: int,
        now: int,
        *,
        is_parent: bool = False,
    ) -> None:
        """The end of a lease: what it counted is given back, and a budget spends what is due."""
        self.in_use -= cost
        if self.retired:
            return
        if isinstance(self.settings, Budget):
            units = settled(cost, reported, how, self.settings)
            self.spend(units, now, is_parent=is_parent)
        elif how is Settles.UNBEGUN:
            self.untake(cost, claimed_at, now)

    def forget(self) -> None:
        """An operator begins the period or the window anew."""
        self.spent = 0
        self.alarms &= ALONE
        self.slices.clear()

    def _notice(self) -> None:
        if isinstance(self.settings, Budget) and self._has_amounts:
            self.alarms |= raised(self.alarms, self.settings, self.spent, self.in_use)

    @property
    def _has_amounts(self) -> bool:
        return self.has_own or bool(self.alarms & ALONE)

    # What is shown and kept of it --------------------------------------------------------------

    @property
    def rings(self) -> bool:
        """Whether somebody is to be told of it."""
        return bool(self.alarms & UNTOLD)

    def told(self) -> list[Alarm]:
        """What is to be told, once."""
        if not isinstance(self.settings, Budget):
            self.alarms = 0
            return []
        facts = self.spent, self.in_use, self.settings
        told = [Alarm(self.name, what, *facts) for what in due(self.alarms)]
        self.alarms = after_telling(self.alarms)
        return told

    def counted(self, now: int) -> int:
        """What a budget has spent in its period, or what a rate has let begin that still counts."""
        match self.settings:
            case Rate(burst=None) as rate:
                return sum(self._window(rate, now).values())
            case Rate() as rate:
                return -(-self._meter(rate, now) // rate.permit)
            case Budget() as budget:
                return self._spent(budget, now)
            case _:
                return 0

    def added(self, now: int) -> int:
        """What operators let be spent beyond the hard amount of a budget in this period."""
        budget = self.settings
        if not isinstance(budget, Budget) or self.since < budget.period(now).start:
            return 0
        return self.slices.get(self.since, 0)

    def soft_reached(self, now: int) -> bool:
        budget = self.settings
        if not isinstance(budget, Budget) or budget.soft is None or not self._has_amounts:
            return False
        return self._spent(budget, now) + self.in_use >= budget.soft

    @property
    def is_blank(self) -> bool:
        """Whether it is as a bucket without a row: it counts, holds up and keeps nothing."""
        return (
            self.in_use == 0
            and not (self.has_waiting or self.has_own)
            and self.shut_until is None
            and (self.settings is None or type(self.settings) is Concurrency)
        )

    def keeps_nothing(self, now: int) -> bool:
        """Whether the books of its kind are as those of a new bucket."""
        return self.counted(now) == 0 and self.added(now) == 0


def settled(cost: int, reported: int | None, how: Settles, budget: Budget) -> int:
    """What a budget spends at the end of a job that had reserved its cost."""
    match how:
        case Settles.UNBEGUN:
            return 0
        case _ if reported is not None:
            return reported
        case Settles.ESTIMATE:
            return cost
        case Settles.CHARGE:
            return cost if budget.on_failure == "charge" else 0
        case Settles.REFUND:
            return 0
    assert_never(how)


def never_granted(bucket: Bucket, units: int, now: int) -> str | None:
    """Why a handler can never take so much from this bucket, if so."""
    name, settings = split_bucket(bucket.name)[0], bucket.settings
    if settings is None:
        return f"limit {name!r} is not defined"
    if isinstance(settings, Concurrency):
        return f"limit {name!r} is a concurrency: only the lease of a job can hold it"
    if bucket.never_fits(units, now):
        most = bucket.largest(now)
        return f"limit {name!r} never lets more than {most} pass, and {units} is asked"
    return None


def fitting(costs: Iterable[Sequence[int]], rooms: Sequence[int]) -> int:
    """How many of these jobs may begin, in their order, where their buckets have so much room: the
    first that does not fit stops those behind it."""
    left, fit = list(rooms), 0
    for units in costs:
        if any(cost > room for cost, room in zip(units, left, strict=True)):
            break
        left = [room - cost for cost, room in zip(units, left, strict=True)]
        fit += 1
    return fit
