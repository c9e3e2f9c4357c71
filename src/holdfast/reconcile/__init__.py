"""Reconcilers: what time can break, they mend; any replica may run any of them."""

from holdfast.background.counters import Counters, Tally
from holdfast.background.options import ReconcileOptions
from holdfast.background.reconciler import Reconciler
from holdfast.background.service import Loop, Service
from holdfast.background.supervisor import Supervisor
from holdfast.reconcile.standard import ReconcileService, standard_reconcilers

__all__ = [
    "Counters",
    "Loop",
    "ReconcileOptions",
    "ReconcileService",
    "Reconciler",
    "Service",
    "Supervisor",
    "Tally",
    "standard_reconcilers",
]
