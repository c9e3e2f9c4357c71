"""Limits: what says "not now" to a ready job.

A *limit* is a definition in the store. A *bucket* is one limit at one key, with its count. A claim
gives a job only if every bucket of the job has room, and counts it in all of them in the same
write. The job's lease lists what was counted, and whoever ends the lease settles that, once, under
the fence: a concurrency gets its places back, a budget keeps what was spent, and a rate keeps its
count of an attempt that has begun.

`model` has the words, `admission` the arithmetic of buckets with that of `rates` and `periods`, and
`turns` says whose turn it is. `showing` makes what operators see.
"""
