"""What a worker says of itself with every heartbeat: its *facts*.

A store keeps the facts of a worker as one JSON value and knows the name of one field: `counts`. Its
numbers never go down while the worker lives. When a worker leaves or is swept, the store adds its
counts to what those before it have counted, so sums over all workers never go down either.

A fact that this release does not know is ignored, and one that the worker did not say is None: the
workers of two releases may share a store.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

OF_RECONCILERS = "reconciler."
"""Counts of a reconciler are named `reconciler.<name>.<result>`."""


class SlotFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The slots of one queue or pattern: `used` by handlers, `stuck` with handlers that went on
    after their time, `free`. `share`: how many of them may be used of a queue that has a total."""

    used: int = 0
    free: int = 0
    stuck: int = 0
    share: int | None = None


class ReconcilerFacts(msgspec.Struct, frozen=True):
    """What one reconciler of a worker has done. `errors`: sweeps that failed as a whole."""

    found: int = 0
    mended: int = 0
    refused: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    last_error: str | None = None


class WorkerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of one worker, as it said them last.

    Ages are seconds, so that no clock but the store's is needed to read them. `up_for`: since the
    worker began. `cpu`: the processor cores that its process used since the beat before, without
    child processes. `memory`: bytes. `loop_lag`: how late its event loop turns.
    `store_out_of_reach_for`: since the store stopped answering it, or 0. `unwritten`: ends that the
    store has not answered yet. `leaving`: it claims no more. `resting`: tasks that it does not
    claim for a while, because the children of their pools fail. `only`: it takes
    no job that does not require all of these. `labels`: what it
    can do that others may not. `signing_keys`: the ids of the keys by which it can prove votes.
    `code`: a digest of its tasks, the same for workers that run the same code. `last_errors`: by
    reconciler.

    `counts` are since its registration: `claimed`, `ended`, `handed_back`, `refused_writes`,
    `discarded`, `telemetry_dropped`, and those of its reconcilers.
    """

    slots: dict[str, SlotFacts] | None = None
    up_for: float | None = None
    cpu: float | None = None
    memory: int | None = None
    threads: int | None = None
    loop_lag: float | None = None
    store_out_of_reach_for: float | None = None
    unwritten: int | None = None
    leaving: bool | None = None
    resting: list[str] = []
    labels: list[str] = []
    only: list[str] = []
    signing_keys: list[str] = []
    code: str | None = None
    python: str | None = None
    platform: str | None = None
    last_errors: dict[str, str] = {}
    counts: dict[str, int] = {}

    @property
    def stuck(self) -> dict[str, int]:
        """Stuck handlers, by the queue or pattern whose slots they keep."""
        slots = (self.slots or {}).items()
        return {choice: facts.stuck for choice, facts in slots if facts.stuck}

    @property
    def reconcilers(self) -> dict[str, ReconcilerFacts]:
        return reconciled(self.counts, self.last_errors)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> WorkerFacts:
        """Facts that this release cannot read count as not said: nobody may be kept from the list
        of workers by what another release says of itself."""
        try:
            return _decode(text)
        except msgspec.MsgspecError:
            return NO_FACTS


_decode = msgspec.json.Decoder(WorkerFacts).decode
NO_FACTS = WorkerFacts()


def reconciled(
    counts: Mapping[str, int], last_errors: Mapping[str, str] | None = None
) -> dict[str, ReconcilerFacts]:
    """The counts of reconcilers, by the reconciler's name. A result that this release does not know
    is ignored."""
    found: dict[str, dict[str, int]] = {}
    for name, number in counts.items():
        reconciler, _, result = name.removeprefix(OF_RECONCILERS).rpartition(".")
        if name.startswith(OF_RECONCILERS) and result in ReconcilerFacts.__struct_fields__:
            found.setdefault(reconciler, {})[result] = number
    errors = last_errors or {}
    return {
        name: ReconcilerFacts(**numbers, last_error=errors.get(name))
        for name, numbers in sorted(found.items())
    }
