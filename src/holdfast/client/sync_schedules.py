"""The verbs on schedules without an event loop: `app.sync.schedules.pause("nightly")`."""

from __future__ import annotations

from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.sync import SyncVerbs, plain


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
