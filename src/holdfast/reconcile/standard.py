"""All reconcilers that a store needs, and the service that runs them."""

from __future__ import annotations

from holdfast.background.counters import LoopCounters, Swept
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.reconciler import Reconciler
from holdfast.background.replicas import Replicas
from holdfast.background.woken_service import WokenService
from holdfast.events import Events
from holdfast.reconcile.attempt_timeout import AttemptTimeoutReconciler
from holdfast.reconcile.buckets import BucketsReconciler
from holdfast.reconcile.budgets import BudgetsReconciler
from holdfast.reconcile.deadline import DeadlineReconciler
from holdfast.reconcile.errands import ErrandsReconciler
from holdfast.reconcile.flow_drift import FlowDriftReconciler
from holdfast.reconcile.lapsed_leases import LapsedLeasesReconciler
from holdfast.reconcile.parent_drift import ParentDriftReconciler
from holdfast.reconcile.promotion import PromotionReconciler
from holdfast.reconcile.retention import RetentionReconciler
from holdfast.reconcile.rollup import RollupReconciler
from holdfast.reconcile.signal_drift import SignalDriftReconciler
from holdfast.reconcile.stream_trim import StreamTrimReconciler
from holdfast.reconcile.tally import TallyReconciler
from holdfast.reconcile.unserved import UnservedReconciler
from holdfast.reconcile.votes import VotesReconciler
from holdfast.reconcile.worker_registry import WorkerRegistryReconciler
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup

# In the order in which one pass over all of them mends the most: a job that a death or a timeout
# sends back may be due at once, so promotion comes after these.
STANDARD: tuple[type[Reconciler], ...] = (
    LapsedLeasesReconciler,
    AttemptTimeoutReconciler,
    DeadlineReconciler,
    PromotionReconciler,
    RetentionReconciler,
    WorkerRegistryReconciler,
    TallyReconciler,
    RollupReconciler,
    ErrandsReconciler,
    FlowDriftReconciler,
    ParentDriftReconciler,
    SignalDriftReconciler,
    VotesReconciler,
    UnservedReconciler,
    StreamTrimReconciler,
    BucketsReconciler,
    BudgetsReconciler,
)


def standard_reconcilers(
    store: Store,
    events: Events,
    options: ReconcileOptions | None = None,
    replicas: Replicas | None = None,
) -> list[Reconciler]:
    """One of each. They share one outage and one count of replicas."""
    options, replicas = options or ReconcileOptions(), replicas or Replicas()
    outage = Outage(events, "reconcile")
    return [each(store, events, options, outage=outage, replicas=replicas) for each in STANDARD]


class ReconcileService(WokenService):
    """Runs every reconciler, and wakes some of them when a job is scheduled, a flow owes something
    or a budget runs low."""

    name = "reconcile"
    topics = frozenset({Topic.DUE, Topic.ERRANDS, Topic.LIMITS})

    def __init__(
        self,
        store: Store,
        events: Events,
        options: ReconcileOptions | None = None,
        *,
        replicas: Replicas | None = None,
    ) -> None:
        options, self._replicas = options or ReconcileOptions(), replicas or Replicas()
        self.reconcilers = standard_reconcilers(store, events, options, self._replicas)
        for each in self.reconcilers:
            if each.on_loss:
                self._replicas.on_loss(each.wake)
        super().__init__(store, events, self.reconcilers, grace=options.grace)

    @property
    def counters(self) -> dict[str, LoopCounters]:
        return {each.name: each.counters for each in self.reconcilers}

    async def run_once(self) -> dict[str, Swept]:
        """One sweep of each reconciler that mends something, in order, without waiting: for tests
        that move the clock. A test is its own worker between two drains, so nobody has to be told
        that there is none."""
        mending = [each for each in self.reconcilers if not each.only_tells]
        return {each.name: await each.run_once() for each in mending}

    async def after_loops(self) -> None:
        for each in self.reconcilers:
            await each.close()

    def wake(self, wakeup: Wakeup) -> None:
        """A few replicas at random sweep what is due. If chance chooses none, the next poll of
        some worker wakes one."""
        if self._replicas.chosen():
            for each in self.reconcilers:
                wakes = {
                    Topic.DUE: each.on_due,
                    Topic.ERRANDS: each.on_errands,
                    Topic.LIMITS: each.on_limits,
                }
                if wakes[wakeup.topic]:
                    each.wake()
