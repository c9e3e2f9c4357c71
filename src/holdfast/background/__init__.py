"""What runs in the background of a worker: the machinery of services, loops and reconcilers.

**Service.** The worker starts and stops services (`service.Service`). A service that runs loops and
listens to the store's wakeups is a `WokenService`. The worker has one for the reconcilers and one
for schedules.

**Loop.** A loop runs until its stop event is set (`service.Loop`). A service hands its loops to a
`Supervisor`. If a loop raises or returns without being asked, the supervisor reports that and
starts the loop again, after a wait that doubles with each early death. At shutdown it sets the stop
event of all loops at once, and cancels the loops that have not ended after the grace.

**Reconciler.** A reconciler is a loop that mends one kind of thing that time can break: a lapsed
lease, a passed deadline, a job that became due. Nothing tells it what broke, it reads the store. It
is safe on any replica, at any moment, on many replicas at once, because the store checks every
change again in the transaction that makes it. The reconcilers themselves are in `reconcile/`.

**Sweep.** One pass of a reconciler: batches follow each other until one comes back short. An error
ends the sweep, not the loop. A job that makes a batch fail is found by halving, and the others are
mended in the same sweep; a job that fails three times in a row rests for ten sweeps
(`FailureTracker`). `JobSweep` is the base of reconcilers that end jobs. `Swept` counts what a sweep
did, `LoopCounters` what a loop did since it was made.

**How often.** A reconciler waits for its interval, or until the time at which it knows something
will be due, and a wakeup ends the wait early. Wakeups may be lost, so no result depends on them.
With n replicas each waits √n times as long, so that the fleet sweeps √n times per interval
(`Replicas`).

**Leadership.** `Leadership` saves work that one replica can do for all. It is a lease row in the
store. Nothing may depend on it for correctness: two leaders at once do the same work twice, and
nothing worse.

**Outage.** When the store cannot be reached, every loop backs off by itself (`Backoff`), and an
`Outage` that they share emits one event when it begins and one when it is over.
"""
