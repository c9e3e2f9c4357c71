"""The arithmetic of buckets, whatever comes in whatever order.

By the numbers of the chapter on limits: 3 no window has more starts than its rate, and of a paced
rate no interval more than a burst and what grows in it; 4 a budget is never exceeded at an
admission, and its books are the sum of what was settled; 14 a parent has spent what its children
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from holdfast.job.transition import Settles
from holdfast.limits.admission import Bucket, fitting
from holdfast.limits.model import SECOND, Budget, Concurrency, Rate, from_json, to_json
from holdfast.limits.periods import period_at
from holdfast.schedule.zone import changes

START = 1_893_456_000 * SECOND
"""2030."""
waits = st.integers(0, 3 * SECOND)
STARTS = st.lists(st.tuples(waits, st.integers(1, 4), st.booleans()), max_size=60)
"""How long after the one before, at which cost, and whether it is begun at all."""
Begun = list[tuple[int, int]]


def play(bucket: Bucket, starts: Sequence[tuple[int, int, bool]]) -> Begun:
    """What began, and when. Every third one that is not begun is handed back only after the next
    start."""
    now, begun, late = START, Begun(), Begun()
    for n, (wait, cost, begins) in enumerate(starts):
        now += wait
        if bucket.room(now) < cost:
            continue
        bucket.take(cost, now)
        for taken_at, units in late:
            bucket.untake(units, taken_at, now)
        late.clear()
        if begins:
            begun.append((now, cost))
        elif n % 3:
            bucket.untake(cost, now, now)
        else:
            late.append((now, cost))
    return begun


def within(begun: Begun, first: int, until: int) -> int:
    return sum(cost for at, cost in begun if first <= at < until)


@given(most=st.integers(1, 9), per=st.integers(1, 5), starts=STARTS)
def test_no_window_has_more_starts_than_its_rate(
    most: int, per: int, starts: list[tuple[int, int, bool]]
) -> None:
    begun = play(Bucket("a:", Rate(most, per=per)), starts)
    for at, _ in begun:
        assert within(begun, at, at + per * SECOND) <= most


@given(most=st.integers(1, 9), per=st.integers(1, 7), burst=st.integers(1, 9), starts=STARTS)
def test_a_paced_rate_gives_a_burst_and_what_grows(
    most: int, per: int, burst: int, starts: list[tuple[int, int, bool]]
) -> None:
    begun = play(Bucket("a:", Rate(most, per=per, burst=burst)), starts)
    for n, (first, _) in enumerate(begun):
        for last, _ in begun[n:]:
            grown = most * (last - first) / (per * SECOND)
            assert within(begun, first, last + 1) <= burst + grown + 1e-9


@given(most=st.integers(1, 9), burst=st.none() | st.integers(1, 9), cost=st.integers(1, 9))
def test_a_rate_opens_when_it_says(most: int, burst: int | None, cost: int) -> None:
    """Not a microsecond later, and never earlier."""
    rate = Rate(most, per=7, burst=burst)
    bucket = Bucket("a:", rate)
    while bucket.room(START):
        bucket.take(1, START)
    opens = bucket.opens_at(START, cost)
    if cost > rate.largest:
        assert opens is None
        return
    assert opens is not None
    assert bucket.room(opens) >= cost
    assert bucket.room(opens - 1) < cost


@given(
    before=st.integers(1, 9),
    per=st.integers(1, 9),
    after=st.integers(1, 9),
    longer=st.integers(1, 90),
    burst=st.none() | st.integers(1, 9),
)
def test_a_changed_rate_forgets_nothing_too_early(
    before: int, per: int, after: int, longer: int, burst: int | None
) -> None:
    bucket = Bucket("a:", Rate(before, per=per, burst=burst))
    bucket.take(1, START)
    bucket.settings = Rate(after, per=longer, burst=burst)
    assert bucket.counted(START) == 1
    if burst is None:
        assert bucket.counted(START + longer * SECOND - 1) == 1


ENDS = st.tuples(
    st.integers(1, 40), st.sampled_from(list(Settles)), st.none() | st.integers(0, 60), waits
)


@given(
    jobs=st.lists(ENDS, max_size=30),
    every=st.none() | st.integers(1, 5),
    on_failure=st.sampled_from(["refund", "charge"]),
)
def test_the_books_of_a_budget_balance(
    jobs: list[tuple[int, Settles, int | None, int]], every: int | None, on_failure: str
) -> None:
    budget = Budget(100, every=every, on_failure=on_failure)  # type: ignore[arg-type]
    parent, child = Bucket("t:a", budget), Bucket("t:a/b", budget)
    now, spent, running = START, 0, list[tuple[int, Settles, int | None]]()
    for cost, how, reported, wait in jobs:
        if every is not None and budget.period(now + wait).start != budget.period(now).start:
            spent = 0
        now += wait
        if child.room(now) >= cost:
            assert spent + sum(one[0] for one in running) + cost <= 100
            running.append((cost, how, reported))
            for one in (parent, child):
                one.in_use += cost
                one.take(cost, now, is_parent=one is parent)
        elif running:
            held, end, said = running.pop(0)
            for one in (parent, child):
                one.settle(held, said, end, now, now, is_parent=one is parent)
            spent += _due(held, said, end, on_failure)
        assert child.counted(now) == parent.counted(now) == spent
        assert child.in_use == parent.in_use == sum(one[0] for one in running)


def _due(cost: int, said: int | None, end: Settles, on_failure: str) -> int:
    if end is Settles.UNBEGUN:
        return 0
    if said is not None:
        return said
    charged = end is Settles.CHARGE and on_failure == "charge"
    return cost if charged or end is Settles.ESTIMATE else 0


def test_a_clock_that_is_set_back_over_midnight_forgets_nothing() -> None:
    bucket = Bucket("a:", Budget(100, every="day"))
    bucket.spend(60, START)
    assert bucket.counted(START - SECOND) == 60
    bucket.spend(5, START - SECOND)
    assert bucket.counted(START) == 65


ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Australia/Lord_Howe",  # its clocks move by half an hour
    "America/Caracas",  # moved to other half hours
    "Asia/Pyongyang",
    "America/St_Johns",  # changed its clocks at 0:01
    "Antarctica/Troll",  # by two hours
]
MOMENTS = st.integers(946_684_800 * SECOND, 2_208_988_800 * SECOND)
"""From 2000 to 2040."""


@given(now=MOMENTS, zone=st.sampled_from(ZONES), every=st.sampled_from(["hour", "day", "month"]))
def test_periods_follow_each_other_without_a_gap(now: int, zone: str, every: str) -> None:
    period = period_at(every, zone, now)  # type: ignore[arg-type]
    assert period.end is not None
    assert period.start <= now < period.end
    following = period_at(every, zone, period.end)  # type: ignore[arg-type]
    assert following.start == period.end
    before = period_at(every, zone, period.start - 1)  # type: ignore[arg-type]
    assert before.end == period.start


MINUTE = 60 * SECOND
CHANGES = [
    (name, round(at.timestamp()) * SECOND)
    for name in ZONES
    for year in range(2000, 2040)
    for at in changes(ZoneInfo(name), year)
]


def shown(zone: ZoneInfo, at: int) -> tuple[object, ...]:
    """The hour that the clock on the wall shows, and how that clock is set."""
    local = datetime.fromtimestamp(at // SECOND, zone)
    return local.date(), local.hour, local.utcoffset()


def hour_by_walking(zone: ZoneInfo, now: int) -> tuple[int, int]:
    """How long the clock shows one hour and is not moved. It is looked at every minute: since 2000
    no clock was moved in between."""
    start = now - now % MINUTE
    end, hour = start + MINUTE, shown(zone, now)
    while shown(zone, start - MINUTE) == hour:
        start -= MINUTE
    while shown(zone, end) == hour:
        end += MINUTE
    return start, end


@given(
    around=st.sampled_from(CHANGES) | st.tuples(st.sampled_from(ZONES), MOMENTS),
    off=st.integers(-3 * 60 * MINUTE, 3 * 60 * MINUTE) | st.sampled_from([-1, 0, 1]),
)
def test_an_hour_is_what_the_clock_shows_until_it_is_moved(
    around: tuple[str, int], off: int
) -> None:
    name, now = around[0], around[1] + off
    assert period_at("hour", name, now) == hour_by_walking(ZoneInfo(name), now)


@given(
    rooms=st.lists(st.integers(0, 20), min_size=1, max_size=3),
    jobs=st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), max_size=9),
)
def test_who_fits_fits_together_and_in_order(rooms: list[int], jobs: list[list[int]]) -> None:
    costs = [job[: len(rooms)] for job in jobs]
    fit = fitting(costs, rooms)
    sums = [sum(column) for column in zip(*costs[:fit], strict=True)] or [0] * len(rooms)
    assert all(total <= room for total, room in zip(sums, rooms, strict=True))
    if fit < len(costs):
        more = [total + cost for total, cost in zip(sums, costs[fit], strict=True)]
        assert any(total > room for total, room in zip(more, rooms, strict=True))


@given(
    settings=st.one_of(
        st.builds(Concurrency, st.integers(0, 99)),
        st.builds(Rate, st.integers(0, 99), st.integers(1, 99), st.none() | st.integers(1, 99)),
        st.builds(Budget, st.integers(50, 99), st.none() | st.integers(0, 50), st.integers(1, 9)),
    )
)
def test_settings_survive_their_text(settings: Concurrency | Rate | Budget) -> None:
    assert from_json(to_json(settings)) == settings
