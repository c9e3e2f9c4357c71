"""What ties a job to anything but itself.

A job without ties is plain: a store may insert and end it by a shorter way, because nothing else
has to change with it. A job with ties takes the general way, but for successes that a predicate of
`Transition` names. The ties lie on the job's narrow row and travel with it: ready → lease →
`Claimed` → `Transition`.
"""

from __future__ import annotations

from enum import IntFlag


class Tie(IntFlag):
    """The bits of `NewJob.ties`."""

    NODE = 1  # it belongs to a flow, whose other jobs may wait for its end
    PERMITS = 2  # its claim counts against limits, and its end settles that
    WATCHED = 8  # nothing gives it yet: to a store it is as any tie that it does not know
    PARENT = 16  # it has started a flow, which its end cancels
    STEPS = 32  # it has steps, signals or streams, which are removed with it
    UNDO = 64  # it has recorded a step that is undone if it ends badly
    BEGUN = 128  # an attempt of it has begun and did not end it: what that has done stands


NO_TIES = 0
NODE = int(Tie.NODE)
PERMITS = int(Tie.PERMITS)
BEGUN = int(Tie.BEGUN)
"""As plain numbers, for what is asked of every job: `&` with a flag is a call of Python's own."""
OF_ATTEMPTS = int(Tie.STEPS | Tie.UNDO | Tie.BEGUN)
"""What attempts have left. A job that begins again as if it were new is without these."""
BINDING = ~OF_ATTEMPTS
"""All ties for which something has to be settled when a job succeeds. A job with other ties only
succeeds by the shorter way."""
