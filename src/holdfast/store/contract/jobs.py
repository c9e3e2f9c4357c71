"""All verbs on jobs. Each part has a file of the same name in every backend."""

from __future__ import annotations

from typing import Protocol

from holdfast.store.contract.claiming import Claiming
from holdfast.store.contract.finishing import Finishing
from holdfast.store.contract.handing_over import HandingOver
from holdfast.store.contract.inserting import Inserting
from holdfast.store.contract.joining import Joining
from holdfast.store.contract.operating import Operating
from holdfast.store.contract.progressing import Progressing
from holdfast.store.contract.reading import Reading
from holdfast.store.contract.sweeping import Sweeping


class Jobs(
    Inserting,
    Claiming,
    Finishing,
    HandingOver,
    Progressing,
    Sweeping,
    Operating,
    Reading,
    Joining,
    Protocol,
): ...
