"""What operators can do, and acts on many jobs that outlive whoever began them.

`verbs` is the table of all verbs of operators, and `rows` says what a row of it tells. An
*operation* applies one verb on jobs to all that match a filter, page by page: a `runner` works on
operations, a `leg` is its time with one of them, `undoing` takes one back, and `service` works in a
worker on what nobody else works on. The store keeps each operation as a row with a revision
(`store/contract/operations.py`).

**One at a time.** Who works on an operation holds the role `operation:<id>` for some seconds, and
extends that. When a runner dies, its role ends, and whoever hears by a poll that an operation is to
run takes the role.

**Each job once.** Before a page is changed, its jobs are written down with state and fence: the
page is then *in hand*. After it is changed, what came of it is written down, and the hand is empty.
Whoever takes over an operation with a page in hand compares: a job that is still as it was written
down has not been changed, and is changed now; any other has been. Both writes name the revision
that was read, so a runner that was replaced writes nothing.
"""
