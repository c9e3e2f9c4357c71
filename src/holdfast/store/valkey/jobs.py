"""`Jobs` on Valkey: the sum of its parts, each in the file of the same name."""

from __future__ import annotations

from holdfast.store.valkey.claiming import ValkeyClaiming
from holdfast.store.valkey.finishing import ValkeyFinishing
from holdfast.store.valkey.handing_over import ValkeyHandingOver
from holdfast.store.valkey.inserting import ValkeyInserting
from holdfast.store.valkey.joining import ValkeyJoining
from holdfast.store.valkey.operating import ValkeyOperating
from holdfast.store.valkey.progressing import ValkeyProgressing
from holdfast.store.valkey.reading import ValkeyReading
from holdfast.store.valkey.sweeping import ValkeySweeping


class ValkeyJobs(
    ValkeyInserting,
    ValkeyClaiming,
    ValkeyFinishing,
    ValkeyHandingOver,
    ValkeyProgressing,
    ValkeySweeping,
    ValkeyOperating,
    ValkeyReading,
    ValkeyJoining,
): ...
