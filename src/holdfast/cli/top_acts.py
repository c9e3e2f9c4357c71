"""What the keys of `holdfast top` change.

Each act goes through a verb of the client, with the name of whoever sits at the terminal: it is in
the audit like any other act. What stops or ends something is asked first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from holdfast.cli.top_sheets import names_of
from holdfast.cli.top_views import TopView
from holdfast.client.client import Client
from holdfast.insights.overview import Overview
from holdfast.job.checks import is_fingerprint


class Deed(msgspec.Struct, frozen=True):
    """One thing to do. `question` is asked first, unless it is empty; `done` is said after it."""

    call: Callable[[], Awaitable[object]]
    done: str
    question: str = ""


FOR: dict[str, tuple[TopView, ...]] = {
    "pause": (TopView.QUEUES,),
    "retry": (TopView.JOBS, TopView.LIVE, TopView.FAILURES),
    "cancel": (TopView.JOBS, TopView.LIVE),
    "drain": (TopView.WORKERS,),
}
"""The views whose chosen row each act is about."""


class TopActs:
    """Makes deeds of keys."""

    def __init__(self, client: Client, by: str) -> None:
        self._client = client
        self._by = by

    def deed(self, act: str, target: str, seen: Overview) -> Deed:
        match act:
            case "pause":
                return self._pause(target, seen)
            case "retry" if is_fingerprint(target):
                return self._redrive(target)
            case "retry":
                retry = partial(self._client.requeue, target, by=self._by)
                return Deed(retry, f"job {target} is ready again")
            case "cancel":
                return self._cancel(target)
            case "drain":
                return self._drain(target, seen)
            case _:
                raise ValueError(f"there is no act {act!r}")

    def _redrive(self, fingerprint: str) -> Deed:
        """All of them at once: an operation, which the overview shows and a worker carries out."""
        return Deed(
            partial(self._client.failures.redrive, fingerprint, by=self._by),
            "an operation runs them again: the overview shows how far it is",
            "run every job again that failed for good with this error? It can be stopped.",
        )

    def _cancel(self, job: str) -> Deed:
        return Deed(
            partial(self._client.cancel, job, by=self._by),
            f"job {job} is cancelled, or told to stop",
            f"cancel job {job}? If it waits it ends now; if it runs it is told to stop.",
        )

    def _pause(self, queue: str, seen: Overview) -> Deed:
        """The key of a paused queue resumes it."""
        verbs = self._client.queues
        if any(one.name == queue and one.paused for one in seen.queues):
            return Deed(partial(verbs.resume, queue, by=self._by), f"resumed queue {queue}")
        return Deed(
            partial(verbs.pause, queue, by=self._by),
            f"paused queue {queue}",
            f"pause queue {queue}? Running jobs go on, and no other begins.",
        )

    def _drain(self, worker: str, seen: Overview) -> Deed:
        name = names_of(seen.workers).get(worker, worker)
        return Deed(
            partial(self._client.workers.drain, worker, by=self._by),
            f"worker {name} is told to leave",
            f"drain worker {name}? It finishes what runs within its grace, and leaves.",
        )
