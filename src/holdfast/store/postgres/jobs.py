"""Jobs on Postgres: the sum of their verbs. Each part of the contract has a file of its name."""

from __future__ import annotations

from holdfast.store.postgres.claiming import PostgresClaiming
from holdfast.store.postgres.finishing import PostgresFinishing
from holdfast.store.postgres.handing_over import PostgresHandingOver
from holdfast.store.postgres.inserting import PostgresInserting
from holdfast.store.postgres.joining import PostgresJoining
from holdfast.store.postgres.operating import PostgresOperating
from holdfast.store.postgres.progressing import PostgresProgressing
from holdfast.store.postgres.reading import PostgresReading
from holdfast.store.postgres.sweeping import PostgresSweeping


class PostgresJobs(
    PostgresInserting,
    PostgresClaiming,
    PostgresFinishing,
    PostgresHandingOver,
    PostgresProgressing,
    PostgresSweeping,
    PostgresOperating,
    PostgresReading,
    PostgresJoining,
):
    """See `holdfast.store.contract.jobs.Jobs` for what each verb promises."""
