"""`Jobs` on SQLite: the sum of its parts, each in the file of the same name."""

from __future__ import annotations

from holdfast.store.sqlite.claiming import SqliteClaiming
from holdfast.store.sqlite.finishing import SqliteFinishing
from holdfast.store.sqlite.handing_over import SqliteHandingOver
from holdfast.store.sqlite.inserting import SqliteInserting
from holdfast.store.sqlite.joining import SqliteJoining
from holdfast.store.sqlite.operating import SqliteOperating
from holdfast.store.sqlite.progressing import SqliteProgressing
from holdfast.store.sqlite.reading import SqliteReading
from holdfast.store.sqlite.sweeping import SqliteSweeping


class SqliteJobs(
    SqliteInserting,
    SqliteClaiming,
    SqliteFinishing,
    SqliteHandingOver,
    SqliteProgressing,
    SqliteSweeping,
    SqliteOperating,
    SqliteReading,
    SqliteJoining,
): ...
