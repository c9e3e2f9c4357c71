"""Who is measured: which version, on which store, and what is installed for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ASYNCPG = "asyncpg==0.32.0"
HIREDIS = "hiredis==3.5.0"
PSYCOPG = "psycopg[binary]==3.3.8"
REDIS = "redis==8.1.0"
UVLOOP = "uvloop==0.23.0"

FLOWS = frozenset({"flow groups", "flow pipelines"})
STEPS = frozenset({"ten steps", "one step", "steps in sequence"})
LIMITS = frozenset({"one limit", "hundred limits"})


@dataclass(frozen=True, slots=True)
class Peer:
    """Slow ones drain fewer jobs: their rate does not depend on the number, and nobody waits for
    them. `fastest`: the ones Holdfast wants to be ahead of. `flows`: it has groups with a callback
    and pipelines, which a second script measures; `steps`: it records steps, measured by another;
    `limits`: it limits how many jobs of a task run at once, measured by one script a workload.
    `python`: the oldest it runs on."""

    name: str
    store: str
    requirement: str
    beside: Sequence[str] = ()
    jobs: int = 20_000
    fastest: bool = False
    flows: bool = False
    steps: bool = False
    limits: bool = False
    python: tuple[int, int] = (3, 11)

    @property
    def version(self) -> str:
        return self.requirement.partition("==")[2]

    def module(self, workload: str) -> str:
        """The script that measures it."""
        if workload in LIMITS:
            return f"bench.peers.scripts.{self.name}_{workload.replace(' ', '_')}"
        kind = "_flows" if workload in FLOWS else "_steps" if workload in STEPS else ""
        return f"bench.peers.scripts.{self.name}{kind}"

    def meets(self, workload: str) -> bool:
        """Whether it can do what the workload asks for."""
        has = ((FLOWS, self.flows), (STEPS, self.steps), (LIMITS, self.limits))
        return all(able for workloads, able in has if workload in workloads)


PEERS: Sequence[Peer] = (
    Peer(
        "pgqueuer",
        "postgres",
        "pgqueuer==1.6.0",
        (ASYNCPG, UVLOOP, PSYCOPG),
        fastest=True,
        limits=True,
    ),
    Peer("awa", "postgres", "awa-pg==0.6.9", (PSYCOPG,), fastest=True),
    Peer("oban", "postgres", "oban==0.6.3", (UVLOOP, PSYCOPG), python=(3, 12)),
    Peer("chancy", "postgres", "chancy[cli]==0.26.0", (UVLOOP, PSYCOPG)),
    Peer("procrastinate", "postgres", "procrastinate==3.10.0", (UVLOOP, PSYCOPG), jobs=6_000),
    Peer(
        "saq",
        "postgres",
        "saq[hiredis,postgres,redis]==0.26.4",
        (UVLOOP, PSYCOPG),
        jobs=6_000,
    ),
    Peer("dbos", "postgres", "dbos==3.3.0", (PSYCOPG,), jobs=4_000, steps=True),
    Peer(
        "absurd",
        "postgres",
        "absurd-sdk==0.5.1",
        ("absurdctl==0.5.1", PSYCOPG),
        jobs=4_000,
        steps=True,
    ),
    Peer("huey", "valkey", "huey==3.5.4", (REDIS, HIREDIS), fastest=True),
    Peer("dramatiq", "valkey", "dramatiq[redis]==2.2.1", (HIREDIS,), fastest=True, flows=True),
    Peer("rq", "valkey", "rq==2.12.0", (HIREDIS,), jobs=3_000, fastest=True),
    Peer("taskiq", "valkey", "taskiq-redis==1.2.4", (HIREDIS, UVLOOP)),
    Peer("saq", "valkey", "saq[hiredis,postgres,redis]==0.26.4", (UVLOOP, PSYCOPG)),
    Peer("arq", "valkey", "arq==0.28.0", (HIREDIS, UVLOOP), jobs=10_000),
    Peer("streaq", "valkey", "streaq==7.2.0", (UVLOOP,), jobs=6_000),
    Peer("celery", "valkey", "celery[redis]==5.7.0", (HIREDIS,), jobs=5_000, flows=True),
    Peer("huey", "sqlite", "huey==3.5.4", (REDIS, HIREDIS), fastest=True),
    Peer("dbos", "sqlite", "dbos==3.3.0", (PSYCOPG,), jobs=2_000, steps=True),
)
