"""The SQLite backend: one file, or one database in memory.

A verb goes `store.jobs.insert` → `inserting.py` → `Writer.write` → a transaction → statements of
`sql/jobs/insert.sql`. Each part of the contract has a file and a class of its name, and
`SqliteJobs` is the sum of seven.

A job is where its narrow row is: in one of the five live tables or among the outcomes. The view
`holdfast_place` lists them all, `places.py` moves rows between them, and `moves.py` is the list of
steps that every guarded move takes.

The file is in WAL mode. SQLite has one write lock, so each opened store writes from one thread
(`thread.py`), tries small writes in the caller's thread first (`inline_writer.py`), and leaves
room for other processes (`busy.py`, `giving_way.py`). Commits of other processes are noticed by
a `Watcher`.
"""
