"""Which release of Holdfast, on which Python, answers."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from holdfast.telemetry import metrics
from holdfast.telemetry.metrics import Family


@cache
def own_version() -> str:
    """To look for the package on disk takes longer than all else that a worker does to register."""
    try:
        return version("holdfast")
    except PackageNotFoundError:
        return "unknown"


def build_info() -> Family:
    where = own_version(), platform.python_version()
    return Family.of(metrics.BUILD_INFO, [(where, 1)])
