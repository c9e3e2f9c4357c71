"""What happened, as values: the code emits events; logging and metrics subscribe.

An event is a name and fields. The message never varies and the fields do, so a log can be
searched and a counter can be kept without parsing text. `EVENTS` declares every name; a test
compares it with what the code emits and with `docs/reference/events.md`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from holdfast.errors import BadOption

T = TypeVar("T")

logger = logging.getLogger("holdfast")

EVENTS: Mapping[str, str] = {
    # The program
    "program.eager": "Jobs run where they are enqueued, and nothing is stored; told once.",
    # A worker's life
    "worker.started": "A worker is registered and begins to claim.",
    "worker.stopped": "A worker has left; what it could not finish is handed back.",
    "worker.signal": "A worker heard SIGTERM, SIGINT or SIGHUP; it leaves, `immediate` at once.",
    "worker.retiring": "A limit of the worker is reached; it leaves when what runs has ended.",
    "worker.waits_for_room": "The store has no connection to spare, so the worker tries again.",
    "worker.nodes_handed_back": "The store did not answer what nodes of flows need; they wait on.",
    "worker.queue_unserved": "Tasks of the app send jobs to a queue that no live worker serves.",
    "worker.no_signing_keys": "Tasks ask people by ctx.invite, and no signing_keys are set.",
    "queue.unserved": "Jobs wait that no live worker takes; told again while it lasts.",
    "queue.served": "A worker takes again what nobody served.",
    "worker.misfits_not_noted": "Jobs that cannot be read are left; the store has no note of it.",
    "pool.resting": "The children of a pool fail again and again; its tasks rest for a while.",
    "worker.step_slow": "A step of starting or leaving takes long; told again while it does.",
    "worker.draining": "An operator told the worker to leave; it claims no more.",
    "worker.facts_failed": "The worker cannot say its facts; its heartbeats go on without them.",
    "worker.resized": "A queue of a running worker has another number of slots.",
    "worker.share": "The worker's share of a queue's total has changed.",
    "worker.shares_failed": "The list of workers could not be read, for an unexpected reason.",
    "worker.still_listed": "A leaving worker could not say that it serves nothing any more.",
    "worker.order_refused": "An order that came with a heartbeat makes no sense here.",
    # Its store and its lease
    "worker.store_unavailable": "The first verb of a worker failed: an outage of its store begins.",
    "worker.store_back": "Every verb of the worker that failed is answered again.",
    "worker.lease_lapsed": "No heartbeat was answered for a lease; the worker claims no more.",
    "worker.lease_lost": "The store does not know the worker; all its attempts are stopped.",
    "worker.renewed": "A worker that had lost its lease is registered again under a new id.",
    "worker.renewal_failed": "Registering again failed by an unknown error; it is repeated.",
    "worker.not_deregistered": "The row of a worker that left stays until a sweep removes it.",
    "heartbeat.failed": "A heartbeat failed; told once, until one is answered again.",
    "heartbeat.recovered": "A heartbeat is answered again.",
    "heartbeat.not_closed": "The connection of the heartbeats did not close in time, and was cut.",
    "heartbeat.ended": "The thread that keeps the lease ended: the worker's own loop is closed.",
    # Its measures
    "telemetry.not_written": "The store did not take times of jobs; they are kept and sent again.",
    "telemetry.dropped": "Times of these attempts are lost: they came too late, or were too many.",
    "telemetry.not_measured": "A defect kept attempts from being measured; their ends are written.",
    # Its event loop and its handlers
    "worker.loop_blocked": "A handler keeps the event loop; the stack shows where.",
    "worker.loop_turns_again": "The event loop that was blocked turns again.",
    "worker.loop_frozen": "The event loop was blocked for `max_block`, so the worker is given up.",
    "worker.rescue_failed": "Not all ends of a frozen worker were written; its jobs are reclaimed.",
    "worker.slots_lost": "Stuck handlers hold `stuck_share` of a queue's slots; the worker leaves.",
    # Its leaving
    "worker.handlers_did_not_stop": "Handlers that were told to stop went on past the patience.",
    "worker.ends_not_written": "The store did not take these ends; their jobs are reclaimed.",
    "worker.service_stop_failed": "A background service of the worker failed to stop.",
    "worker.left_behind": "Coroutines or threads of handlers still run after the worker has left.",
    "worker.step_not_ended": "A step of leaving took longer than its time and was left behind.",
    "worker.step_failed": "A step of leaving failed; the next step goes on.",
    # Claims
    "fetcher.claim_failed": "A claim failed by an error that is no outage; it is repeated.",
    "fetcher.queue_not_asked": "A claim brought jobs of a queue that it did not ask for; they run.",
    "fetcher.step_failed": "The fetcher met an error of its own and goes on after a pause.",
    "poller.poll_failed": "A poll failed by an error that is no outage; it is repeated.",
    "worker.lost_claim_returned": "A job whose claim was answered by a lost reply is handed back.",
    "worker.lost_claim_search_failed": "The search for lost claims failed; it is repeated.",
    # Attempts and their ends
    "job.attempt_failed": "An attempt ended by an error, a timeout or the loss of its worker.",
    "job.started": "A handler begins, or the first hook or resource around it.",
    "job.succeeded": "The store has accepted that the job succeeded.",
    "job.failed": "The store has accepted that the job failed for good.",
    "job.retried": "The store has accepted that an attempt failed; the job runs again later.",
    "job.snoozed": "The store has accepted that the handler, or a limit, put the job off.",
    "job.suspended": "The store has accepted that the handler suspended the job.",
    "job.cancelled": "The store has accepted that the job is cancelled.",
    "job.expired": "The store has accepted that the job's deadline ended it.",
    "job.skipped": "The store has accepted that the handler skipped the job.",
    "job.handed_back": "The store has accepted that the worker gave the job back unfinished.",
    "job.left": "This worker cannot read the job, or lacks its key; it is left for one that can.",
    "job.undecipherable": "What the job carries was altered, or its key is another one here.",
    "job.lost": "The attempt is no longer this worker's own; its handler is told to stop.",
    "job.handler_stuck": "A handler went on after its attempt was ended; it keeps its slot.",
    "job.stuck_handler_returned": "A stuck handler returned; its slot is free again.",
    "job.end_refused": "The store refused an end: the job's fence or state is another by now.",
    "job.caller_untold": "A job waited for what it called, which has ended; it is told now.",
    "limit.soft_reached": "A budget has reached its soft amount; told once in its period.",
    "budget.overrun": "More of a budget was spent than its hard amount; told once in its period.",
    "limit.miscounted": "A bucket counted other than its leases say; it is corrected.",
    "job.signal_overlooked": "A suspended job waited for a signal that was kept; it is woken.",
    "job.wait_overdue": "The wait of a suspended job was over, and its timer lost; it is woken.",
    "job.steps_unused": "A job succeeded without asking for steps that it had recorded before.",
    "job.not_committed": "A handler rolled back the transaction in which it had ended its job.",
    "job.transaction_open": "A handler returned before it committed the end of its job; told once.",
    "job.end_repeated": "The store forgot an end that it had acknowledged; it is written again.",
    "job.end_kept": "The end of one job meets an error nobody knows; it is kept and tried again.",
    "job.end_unwritable": "The store cannot take a value of this end; the job fails without it.",
    "finisher.listener_failed": "A listener for ends raised; the others and the ends go on.",
    "finisher.flush_failed": "A batch of ends was lost by our own error; its jobs go back.",
    # Reconcilers and what keeps them alive
    "reconcile.store_unavailable": "A reconciler failed to reach the store: an outage begins.",
    "reconcile.store_back": "Every reconciler that failed reaches the store again.",
    "flow.adrift": "The counts of a flow differed from its graph, and were mended.",
    "flow.parent_stranded": "A job still waited for a flow that is over, and was ended.",
    "reconciler.swept": "A sweep ended.",
    "reconciler.jobs_reclaimed": "The jobs of a worker whose lease lapsed were moved on.",
    "reconciler.items_failed": "Some items of a sweep could not be mended; the others were.",
    "reconciler.tick_failed": "A sweep failed as a whole; it is repeated later.",
    "leader.elected": "This process leads a role from now on.",
    "leader.stepped_down": "This process no longer leads a role.",
    "leader.resign_failed": "A role could not be given up; it ends by itself.",
    "service.died": "A background loop ended that should go on; it is started again.",
    "supervisor.did_not_stop": "Background loops did not stop within the grace and were cancelled.",
    # People who are asked
    "approval.refused": "An answer does not count; the caller was not told the reason. `count`"
    " answers, if the tokens were not signed: these are told once a second.",
    "job.vote_unproven": "A vote in the store does not count: this worker cannot prove it.",
    # Operators
    "operator.acted": "A verb was applied for whom `by` names; `changed` counts what it changed.",
    "audit.close_failed": "An act is over, and the audit could not be told how it ended.",
    "audit.begin_failed": "The audit could not be told that an act still goes on.",
    "operation.over": "An operation is done, waits after its canary, or was stopped.",
    "operation.taken_over": "A page that a runner left in hand was brought to its end.",
    "operation.leg_failed": "Work on an operation broke off; it goes on later.",
    "catalogue.publish_failed": "The tasks of a worker could not be published; it is repeated.",
    # Schedules
    "schedule.declare_failed": "Schedules declared in code could not be written; it is repeated.",
    "schedule.evaluation_failed": "One schedule could not be evaluated; it is tried again later.",
    "schedule.tick_failed": "The evaluator met an error of its own and goes on after a pause.",
}
"""Every event by its name: when it is emitted, in one sentence."""


ON_REQUEST = frozenset(
    f"job.{word}"
    for word in (
        *("started", "succeeded", "failed", "retried", "snoozed", "suspended"),
        *("cancelled", "expired", "skipped", "handed_back"),
    )
)
"""Events of every single job. Only a subscriber that names one hears it, and while nobody does, it
is not even made."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened, by a name of `EVENTS`: `worker.started`, `job.attempt_failed`, …"""

    name: str
    fields: Mapping[str, object]
    level: int = logging.INFO


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber; a subscriber that raises harms nobody else."""

    def __init__(self, *subscribers: Subscriber) -> None:
        self._to_all: tuple[Subscriber, ...] = subscribers
        self._by_name: dict[str, tuple[Subscriber, ...]] = {}
        self._watchers: tuple[Callable[[], None], ...] = ()
        self._changing = threading.Lock()

    def subscribe(self, subscriber: Subscriber, *names: str) -> Callable[[], None]:
        """Call the subscriber with events of these names, or without names with every event but
        those of `ON_REQUEST`. Returns how to stop that. Any thread may subscribe."""
        for name in names:
            if name not in EVENTS:
                known = "names of docs/reference/events.md, such as 'job.failed'"
                raise BadOption("an event", known, name)
        self._change(names, lambda known: (*known, subscriber))
        return lambda: self._change(names, lambda known: _without(known, subscriber))

    def wants(self, name: str) -> bool:
        """Whether anybody asked for events of this very name."""
        return name in self._by_name

    def on_wish(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call the watcher whenever the answers of `wants` may have changed; returns how to stop
        that."""
        with self._changing:
            self._watchers += (watcher,)
        return lambda: self._forget(watcher)

    def _forget(self, watcher: Callable[[], None]) -> None:
        with self._changing:
            self._watchers = _without(self._watchers, watcher)

    def _change(
        self,
        names: tuple[str, ...],
        change: Callable[[tuple[Subscriber, ...]], tuple[Subscriber, ...]],
    ) -> None:
        with self._changing:
            if not names:
                self._to_all = change(self._to_all)
            by_name = self._by_name | {n: change(self._by_name.get(n, ())) for n in names}
            self._by_name = {name: asked for name, asked in by_name.items() if asked}
        for watcher in self._watchers:
            watcher()

    def info(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields))

    def warning(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields, logging.WARNING))

    def error(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields, logging.ERROR))

    def debug(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields, logging.DEBUG))

    def emit(self, event: Event) -> None:
        everybody = () if event.name in ON_REQUEST else self._to_all
        for subscriber in (*everybody, *self._by_name.get(event.name, ())):
            try:
                subscriber(event)
            except Exception:
                logger.exception("event subscriber failed", extra={"event": event.name})


def _without(known: tuple[T, ...], one: T) -> tuple[T, ...]:
    """The same without one of these; it may be there twice."""
    place = known.index(one) if one in known else len(known)
    return (*known[:place], *known[place + 1 :])
