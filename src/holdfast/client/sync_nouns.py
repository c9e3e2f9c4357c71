"""The verbs without an event loop on nouns that few programs ask about: `app.sync.failures`.

They are apart from `sync.py`, because their asynchronous verbs are imported with their first use:
those on schedules read cron expressions and time zones, those on operations can work on one.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.client.failures import FailureVerbs
from holdfast.client.limits import LimitVerbs
from holdfast.client.operations import OperationVerbs
from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.signals import SignalVerbs
from holdfast.client.streams import Follower, StreamVerbs
from holdfast.client.sync import SyncVerbs, plain
from holdfast.client.telemetry import TelemetryVerbs
from holdfast.job.stream import Frame


class SyncScheduleVerbs(SyncVerbs):
    """Create, change, question and run schedules."""

    all = plain(ScheduleVerbs.all)
    get = plain(ScheduleVerbs.get)
    create = plain(ScheduleVerbs.create)
    edit = plain(ScheduleVerbs.edit)
    apply = plain(ScheduleVerbs.apply)
    pause = plain(ScheduleVerbs.pause)
    resume = plain(ScheduleVerbs.resume)
    delete = plain(ScheduleVerbs.delete)
    trigger = plain(ScheduleVerbs.trigger)
    preview = plain(ScheduleVerbs.preview)
    history = plain(ScheduleVerbs.history)
    backfill = plain(ScheduleVerbs.backfill)


class SyncSignalVerbs(SyncVerbs):
    """Send signals to jobs, and read who waits for which."""

    send = plain(SignalVerbs.send)
    of = plain(SignalVerbs.of)
    waits = plain(SignalVerbs.waits)


class SyncStreamVerbs(SyncVerbs):
    """Follow the streams of jobs."""

    of = plain(StreamVerbs.of)

    def follow(
        self, job_id: str, name: str, *, after: str | None = None, follow: bool = True
    ) -> Iterator[Frame]:
        """The frames of a stream in their order, as they come: see `client.streams.follow`."""
        follower = Follower(job_id, name, after, waits=follow)
        while not follower.is_over:
            yield from self._begin(follower.more).wait()


class SyncLimitVerbs(SyncVerbs):
    """Read limits and their buckets, change them, shut and open them."""

    all = plain(LimitVerbs.all)
    buckets = plain(LimitVerbs.buckets)
    get = plain(LimitVerbs.get)
    holders = plain(LimitVerbs.holders)
    waiters = plain(LimitVerbs.waiters)
    history = plain(LimitVerbs.history)
    set = plain(LimitVerbs.set)
    inherit = plain(LimitVerbs.inherit)
    weigh = plain(LimitVerbs.weigh)
    top_up = plain(LimitVerbs.top_up)
    reset = plain(LimitVerbs.reset)
    drain = plain(LimitVerbs.drain)
    retire = plain(LimitVerbs.retire)


class SyncOperationVerbs(SyncVerbs):
    """Begin, follow, stop and undo operations."""

    preview = plain(OperationVerbs.preview)
    begin = plain(OperationVerbs.begin)
    all = plain(OperationVerbs.all)
    get = plain(OperationVerbs.get)
    follow = plain(OperationVerbs.follow)
    outcomes = plain(OperationVerbs.outcomes)
    stop = plain(OperationVerbs.stop)
    go_on = plain(OperationVerbs.go_on)
    undo = plain(OperationVerbs.undo)


class SyncFailureVerbs(SyncVerbs):
    """Read failures, mute them, write notes on them, and run their dead jobs again."""

    page = plain(FailureVerbs.page)
    get = plain(FailureVerbs.get)
    mute = plain(FailureVerbs.mute)
    unmute = plain(FailureVerbs.unmute)
    note = plain(FailureVerbs.note)
    preview = plain(FailureVerbs.preview)
    redrive = plain(FailureVerbs.redrive)


class SyncTelemetryVerbs(SyncVerbs):
    """Tell the figures of the whole store."""

    overview = plain(TelemetryVerbs.overview)
    metrics = plain(TelemetryVerbs.metrics)
    scale = plain(TelemetryVerbs.scale)
    stats = plain(TelemetryVerbs.stats)
