"""Serve until told to stop: `python -m holdfast.testing.servers postgres|valkey [--durable]`."""

import argparse
import signal
import sys

from holdfast.testing.servers import (
    NoServer,
    PostgresServer,
    ServerFailed,
    ValkeyServer,
    postgres_server,
    valkey_server,
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.servers", description=__doc__)
    parser.add_argument("kind", choices=["postgres", "valkey"])
    parser.add_argument("--durable", action="store_true", help="with fsync, for benches")
    options = parser.parse_args()
    try:
        found = _server(options.kind, durable=options.durable)
    except (NoServer, ServerFailed) as error:
        sys.exit(f"error: {error}")
    with found as server:
        # Blocked only now: the server's programs would inherit it, and a signal that comes
        # before ends this process, after which the watchdog cleans up.
        endings = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, endings)
        print(server.url, flush=True)
        signal.sigwait(endings)


def _server(kind: str, *, durable: bool) -> PostgresServer | ValkeyServer:
    if kind == "postgres":
        return postgres_server(durable=durable, own=True)
    return valkey_server(fsync="always" if durable else None, own=True)


if __name__ == "__main__":
    main()
