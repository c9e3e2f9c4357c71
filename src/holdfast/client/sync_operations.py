"""The verbs on operations without an event loop: `app.sync.operations.stop(id)`."""

from __future__ import annotations

from holdfast.client.operations import OperationVerbs
from holdfast.client.sync import SyncVerbs, plain


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
