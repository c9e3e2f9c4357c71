"""A worker: it claims jobs of its queues, runs their handlers, and writes how they ended.

**The way of a job**, one file after the other. Each part calls the parts after it. What happens
later (a handler ends, a permit comes back, an end is written) is told to the part that waits for
it.

1. `fetcher` claims jobs for queues that have room and may have work; `wants` says how many of
   which. `poller` and the store's wakeups tell it when; `watch` decides whether this worker hears
   of single jobs at all.
2. `permits` says how many jobs may be claimed, of which queue and for which mode. Queues may share
   `slots`, and workers share the total of a queue (`shares`).
3. `admission` makes an `attempt` of each claimed job and decides whether it may begin now.
4. `runner` holds the attempt until its end. It has a `lane` with slots for each queue, one timer
   for all `timeouts`, and the handlers that are `stuck`.
5. `executor` runs the handler (`holdfast.handlers`) and turns its end into a transition. What the
   handler asks for while it runs is answered in `answering`.
6. `finisher` writes transitions in batches. When the store has answered, its `listeners` hear of
   it; `taken_ends` judges the ends that handlers wrote in their own transactions.

`pipeline` puts these parts together; `setup` is what all of them share. `worker` starts and stops
a pipeline. `identity` is the worker's name at the store, and `heartbeat` keeps its lease alive.

**What is guaranteed**
- A handler runs only while its job is claimed under this worker's name, and no more handlers of a
  queue run at once than it has slots.
- An attempt ends once. Its end is kept until the store has answered; the store compares fences, so
  a late end does no harm.
- A job that was claimed and has not begun loses nothing when the worker leaves or dies.

**When a part fails**
- The store is out of reach: claims, polls and ends are tried again (`background.outage`). Handlers
  go on. When the store has forgotten the worker, `identity` gives up what runs and takes a new
  name.
- The answer to a claim is lost: `lost_claims` finds the jobs and hands them back.
- A handler does not stop: it keeps its slot and is *stuck*. If too many are, the worker leaves.
- A handler blocks the event loop: `watchdog` sees it from the heartbeat's thread, and `rescue`
  saves the ends and jobs of the others. `last_resort` ends the process if nothing else can.
- The worker is told to stop (`os_signals`; `notice` keeps by whom): `leaving` lets handlers finish,
  and hands the rest back.
- The process dies: its lease lapses, and a reconciler takes its jobs (`holdfast.reconcile`).
"""
