"""Who watches the workers of this process: probes over HTTP, systemd, the parent process."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from holdfast.worker.notify import Systemd
from holdfast.worker.reporter import LOOK_SECONDS, Reporter, ToParent

if TYPE_CHECKING:
    from holdfast.store.contract.store import Store
    from holdfast.worker.health import AskHealth
    from holdfast.worker.worker import Worker

logger = logging.getLogger("holdfast")

STARTING: Mapping[str, object] = {"live": True, "ready": False, "started": False}


class Watched:
    """The health of a worker that may not be there yet: probes are answered from the start."""

    def __init__(self) -> None:
        self.worker: Worker | None = None

    def health(self) -> Mapping[str, object]:
        return STARTING if self.worker is None else self.worker.health()


@contextmanager
def watching(
    ask: AskHealth, address: str | None, make_store: Callable[[], Store] | None = None
) -> Iterator[None]:
    """Answer probes and scrapes at this address, if one is given, and tell systemd, if it listens.
    Scrapes of the store read one that `make_store` gives."""
    systemd = Systemd.from_environment()
    with ExitStack() as stack:
        if address is not None:
            from holdfast.worker.probes import Address, ProbeServer
            from holdfast.worker.scraping import Scraper

            scraper = None if make_store is None else Scraper(make_store)
            probes = stack.enter_context(ProbeServer(Address.parse(address), ask, scraper))
            logger.info("probes at http://%s/live, /ready, /startup; /metrics", probes.address)
        if systemd is not None:
            every = min(LOOK_SECONDS, systemd.look_every or LOOK_SECONDS)
            stack.enter_context(Reporter(ask, systemd, every))
        yield


@contextmanager
def reported_to_parent(ask: AskHealth) -> Iterator[None]:
    """Tell the parent process, over the socket that is this child's standard input."""
    with (
        socket.socket(fileno=os.dup(sys.stdin.fileno())) as line,
        Reporter(ask, ToParent(line)),
    ):
        yield
