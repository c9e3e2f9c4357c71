"""Which release of Holdfast, on which Python, answers."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from holdfast.telemetry import metrics
from holdfast.telemetry.metrics import Family


def own_version() -> str:
    try:
        return version("holdfast")
    except PackageNotFoundError:
        return "unknown"


def build_info() -> Family:
    where = own_version(), platform.python_version()
    return Family.of(metrics.BUILD_INFO, [(where, 1)])
