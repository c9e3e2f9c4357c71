"""The verbs on failures without an event loop: `app.sync.failures.mute(fingerprint)`."""

from __future__ import annotations

from holdfast.client.failures import FailureVerbs
from holdfast.client.sync import SyncVerbs, plain


class SyncFailureVerbs(SyncVerbs):
    """Read failures, mute them, write notes on them, and run their dead jobs again."""

    page = plain(FailureVerbs.page)
    get = plain(FailureVerbs.get)
    mute = plain(FailureVerbs.mute)
    unmute = plain(FailureVerbs.unmute)
    note = plain(FailureVerbs.note)
    preview = plain(FailureVerbs.preview)
    redrive = plain(FailureVerbs.redrive)
