"""`--reload`: the worker processes are started again when code changes."""

from __future__ import annotations

import logging
from pathlib import Path

from holdfast.cli.processes import ProcessGroup
from holdfast.errors import HoldfastError

logger = logging.getLogger("holdfast")


def require_watcher() -> None:
    """Refuse `--reload` if the library that watches files is not installed."""
    try:
        import watchfiles  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as missing:
        raise HoldfastError(
            "--reload needs watchfiles: pip install 'holdfast[reload]'"
        ) from missing


async def watch(children: ProcessGroup) -> None:
    """Start the children again at each change of a Python file below the working directory."""
    from watchfiles import PythonFilter, awatch

    logger.info("watching %s for changes", Path.cwd())
    async for changes in awatch(Path.cwd(), watch_filter=PythonFilter()):
        names = sorted({Path(path).name for _, path in changes})
        logger.info("changed: %s; starting again", ", ".join(names))
        await children.renew()
