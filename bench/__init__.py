"""How fast Holdfast is, beside what its stores could do with nobody in between.

`python -m bench` (or `make bench`) runs every workload on every store. A
workload has contenders: the *floor*, which is the bare driver doing the least
that moving a job needs, and Holdfast. They take turns on the same server, so
that whatever else the machine does hits both; the best of the rounds counts
and the spread is shown.
"""
