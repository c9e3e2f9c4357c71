"""Reconcilers: each mends one kind of thing that time can break. Any replica may run any of them.

| reconciler | what it mends | how often |
|---|---|---|
| `lapsed_leases` | jobs of a worker whose lease lapsed: takes them back | 1.5 s |
| `attempt_timeout` | attempts past their timeout that their worker did not end | 10 s |
| `deadline` | jobs whose deadline has passed: expires them | when due, 30 s at most |
| `promotion` | delayed, retried or suspended jobs, now due: readies them | when due, 30 s at most |
| `retention` | ended jobs and ledger rows, kept long enough: removes them | 60 s, by the leader |
| `unserved` | nothing: tells of queues and tasks that nobody serves | 15 s, by the leader |
| `worker_registry` | rows of dead workers without jobs: removes them | 30 s |

The times are the defaults of `ReconcileOptions`, for a lone replica. Each file is named after its
reconciler. `standard` lists them all and runs them as one service. `ruling` judges a worker whose
lease lapsed: whether it is dead, and which of its jobs pay for it. The machinery (loops, sweeps,
leadership, outages) is in `background/`.
"""

from holdfast.background.options import ReconcileOptions
from holdfast.reconcile.standard import ReconcileService

__all__ = ["ReconcileOptions", "ReconcileService"]
