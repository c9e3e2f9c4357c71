"""Reconcilers: what time can break, they mend; any replica may run any of them."""

from holdfast.reconcile.counters import Counters, Tally
from holdfast.reconcile.options import ReconcileOptions
from holdfast.reconcile.reconciler import Reconciler
from holdfast.reconcile.service import Loop, Service
from holdfast.reconcile.standard import ReconcileService, standard_reconcilers
from holdfast.reconcile.supervisor import Supervisor

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
