"""How much of everything is measured: enough to trust the figures, or all that was promised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    jobs: int = 20_000
    singles: int = 2_000
    busy_jobs: int = 4_000
    samples: int = 200
    gap: float = 0.02
    sustained_seconds: float = 10.0
    waiting: tuple[int, ...] = (1_000, 10_000, 100_000)
    idle_seconds: float = 10.0
    groups: int = 50
    pipelines: int = 500
    hops: int = 400
    elements: int = 10_000
    lone_ends: int = 4_000
    large: int = 10_000
    skips: int = 5_000
    ten_steps: int = 4_000
    one_step: int = 20_000
    in_sequence: int = 3_000
    suspended: int = 100_000
    at_one_instant: int = 1_000
    stream_seconds: float = 8.0


USUAL = Scale()
LONG = Scale(
    sustained_seconds=60,
    waiting=(1_000, 10_000, 100_000, 1_000_000),
    idle_seconds=30,
    suspended=1_000_000,
    at_one_instant=10_000,
    stream_seconds=60,
)
BRIEF = Scale(jobs=40_000, samples=100)
"""For the guard, which compares like with like and should not be waited for."""
