"""`holdfast top` in a terminal of its own: it draws, and leaves the terminal as it was."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.support.backends import opened
from tests.support.waiting import wait_until

LEAVES_SCREEN = b"\x1b[?1049l"
STARTS = 30.0


def started(url: str, terminal: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "top", "--url", url],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm-256color"},
        start_new_session=True,
    )


@pytest.mark.parametrize("how", ["q", "\x03", "SIGTERM"], ids=["q", "ctrl-c", "sigterm"])
async def test_top_draws_in_a_terminal_and_leaves_it_as_it_was(tmp_path: Path, how: str) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    async with opened(url):
        pass
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    process = started(url, theirs)
    os.set_blocking(ours, False)
    seen = bytearray()

    def drawn(what: bytes) -> bool:
        try:
            while part := os.read(ours, 65_536):
                seen.extend(part)
        except BlockingIOError:
            pass
        return what in seen

    try:
        await wait_until(lambda: drawn(b"queues by lag"), STARTS, "the overview is drawn")
        if how == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            os.write(ours, how.encode())
        await wait_until(lambda: drawn(LEAVES_SCREEN), STARTS, "the screen is given back")
        assert await asyncio.to_thread(process.wait, STARTS) == 0
        drawn(b"")
        assert b"Traceback" not in seen
        assert termios.tcgetattr(theirs) == before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
