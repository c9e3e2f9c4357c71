"""Ports that a throwaway server may take."""

from __future__ import annotations

import random
import socket

from holdfast.testing.servers.binaries import NoServer

# Below the range from which systems take the ports of outgoing connections. Inside it, a client
# that keeps dialling a server which is down may be given that very port, connect to itself and
# keep the server from coming back.
PORTS = range(20_000, 32_000)


def free_port(kind: str, *, also: int = 0) -> int:
    """A port that is free now; with `also`, so is the one that far above it."""
    for port in random.sample(PORTS, 100):
        if is_free(port) and (not also or is_free(port + also)):
            return port
    raise NoServer(kind, [f"ports {PORTS.start}–{PORTS.stop}"], "Free one of these ports.")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
