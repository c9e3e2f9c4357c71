"""Serve until told to stop: `python -m holdfast.testing.servers postgres [--durable]`."""

import argparse
import signal

from holdfast.testing.servers.postgres import postgres_server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.servers", description=__doc__)
    parser.add_argument("kind", choices=["postgres"])
    parser.add_argument("--durable", action="store_true", help="with fsync, for benches")
    options = parser.parse_args()
    endings = {signal.SIGINT, signal.SIGTERM}
    # Blocked before the start, so that one that comes during it is not lost but waits its turn.
    signal.pthread_sigmask(signal.SIG_BLOCK, endings)
    with postgres_server(durable=options.durable, own=True) as server:
        print(server.url, flush=True)
        signal.sigwait(endings)


if __name__ == "__main__":
    main()
