"""Answers over HTTP: the probes `/live`, `/ready` and `/startup`, each 200 or 503; `/metrics` of
this worker; and `/metrics/store` and `/scale` of its store.

The server has threads of its own, so it answers while the event loop is blocked, and says so.
Probes and `/metrics` never ask the store. An answer has booleans, numbers and ages, and the names
of queues, tasks and schedules, and nothing of any job, so it needs no login.
"""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl

import msgspec

from holdfast.errors import BadOption, HoldfastError
from holdfast.telemetry.metrics import Family
from holdfast.telemetry.of_store import Figures, store_families
from holdfast.telemetry.of_worker import worker_families
from holdfast.telemetry.scale import scale
from holdfast.telemetry.text import CONTENT_TYPE, to_text
from holdfast.worker.health import PRIVATE, AskHealth
from holdfast.worker.scraping import Scraper

logger = logging.getLogger("holdfast")

LOOPBACK = "127.0.0.1"
PATIENCE_SECONDS = 5.0
"""How long a client may take to send its request."""
PATHS: Mapping[str, str] = {"/live": "live", "/ready": "ready", "/startup": "started"}
"""The fact that each probe asks for."""
PAGES = ("/metrics", "/metrics/store", "/scale")


class Address(msgspec.Struct, frozen=True):
    """Where probes are answered. Port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """HOST:PORT, or a port alone for this machine only.

        >>> Address.parse("8081")
        Address(host='127.0.0.1', port=8081)
        >>> Address.parse("[::]:8081")
        Address(host='::', port=8081)
        """
        host, _, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or LOOPBACK
        if not port.isascii() or not port.isdecimal() or int(port) > 65535 or " " in host:
            raise BadOption("health", "HOST:PORT or a port, such as 0.0.0.0:8081 or 8081", text)
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ProbeServer:
    """Listens from its making on, so that an address that is taken is an error at once, and
    answers inside its `with` block."""

    def __init__(self, address: Address, ask: AskHealth, scraper: Scraper | None = None) -> None:
        """Without a `scraper` nothing is told of the store."""
        try:
            self._server = _Server(address, ask, scraper)
        except OSError as error:
            raise HoldfastError(
                f"no probes at {address}: {error.strerror or error}; choose another address for "
                "--health, or end the program that listens there"
            ) from error
        self.address = Address(address.host, self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, name="holdfast-probes", daemon=True
        ).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A thread for each request: a client that sends nothing must not hold up the others."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, ask: AskHealth, scraper: Scraper | None) -> None:
        self.ask = ask
        self.scraper = scraper
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Answering)

    def server_bind(self) -> None:
        """Without the look at the name server that `HTTPServer` takes, which may hang."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "holdfast", int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle harms nobody. Anything else is a defect."""
        error = sys.exception()
        if not isinstance(error, OSError):
            logger.error("a probe or a scrape was not answered", exc_info=error)


class _Answering(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE_SECONDS
    server_version, sys_version = "holdfast", ""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        scraper = self.server.scraper
        if (fact := PATHS.get(path)) is not None:
            health = {key: value for key, value in self.server.ask().items() if key not in PRIVATE}
            self._send(_status(bool(health[fact])), health)
        elif path == "/metrics":
            self._send_metrics(worker_families(self.server.ask()))
        elif path == "/metrics/store" and scraper is not None:
            self._send_metrics(store_families(scraper.kind, scraper.figures()))
        elif path == "/scale" and scraper is not None:
            self._send_scale(scraper.figures(), query)
        else:
            paths = [*PATHS, *(PAGES if scraper is not None else PAGES[:1])]
            self._send(HTTPStatus.NOT_FOUND, {"paths": paths})

    do_HEAD = do_GET  # noqa: N815 - as above

    def _send_metrics(self, families: Iterable[Family]) -> None:
        self._write(HTTPStatus.OK, CONTENT_TYPE, to_text(families).encode())

    def _send_scale(self, figures: Figures | None, query: str) -> None:
        """A scaler that hears nothing keeps what there is; one that hears 0 would end workers."""
        if figures is None:
            error = {"error": "the store does not answer"}
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, error)
        else:
            self._send(HTTPStatus.OK, scale(figures, dict(parse_qsl(query)).get("queue")))

    def _send(self, status: HTTPStatus, document: Mapping[str, object]) -> None:
        self._write(status, "application/json", json.dumps(document).encode())

    def _write(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Probes come every few seconds: a line for each would hide everything else."""


def _status(good: bool) -> HTTPStatus:
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
