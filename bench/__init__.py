"""How fast Holdfast is, beside what its stores could do with nobody in between.

`python -m bench` (or `make bench`) runs every workload on every store. A workload has contenders:
the *floor*, which is the bare driver doing the least that a job needs; Holdfast; and when asked
for, other queues (*peers*). They take turns on the same server, so that whatever else the machine
does hits all of them; the best of the rounds counts and the spread is shown.

    places       where: a server of each kind, and an empty store for every measurement
    scale        how much of it
    workloads/   what: one file each, from `single` to `idle`
    floors/      the bare drivers
    peers/       other queues, each in a virtual environment of its own
    program      the tasks and the worker process under test; its handlers leave marks in `ticks`
    measure      contenders take turns; ratios between them
    stopwatch    clock and processor time of a stretch of work
    targets      what is wanted, and whether it was reached
    report       tables and a JSON file
    guard        `make bench-check`: is any ratio to the floor worse than it was?
"""
