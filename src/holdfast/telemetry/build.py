"""Which release of Holdfast, on which Python, answers."""

from __future__ import annotations

import platform

import holdfast
from holdfast.telemetry import metrics
from holdfast.telemetry.metrics import Family

RELEASE = holdfast.__version__


def build_info() -> Family:
    where = RELEASE, platform.python_version()
    return Family.of(metrics.BUILD_INFO, [(where, 1)])
