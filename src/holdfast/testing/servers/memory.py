"""Where a server that need not survive the machine keeps its files.

Postgres writes hundreds of megabytes in a test run, although it syncs none of it. On a slow disk
the kernel then stops whoever writes, for seconds, in the middle of tests that measure time.
"""

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH = 4 * 2**30
"""Bytes. Containers often give 64 MB, which a single test could fill."""


def quickest_folder(otherwise: Path) -> Path:
    """The file system in memory where there is one with room enough."""
    if not os.access(MEMORY, os.W_OK | os.X_OK) or shutil.disk_usage(MEMORY).free < ENOUGH:
        return otherwise
    return MEMORY
