"""A virtual environment for each peer, made when it is first measured and kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.roster import Peer

FOLDER = Path(__file__).parent / ".venvs"
INSTALLED = "installed.txt"
REASON_LENGTH = 300
FRAME = " |+-"
"""What Python draws around the errors of a group."""


class PeerFailed(Exception):
    """A peer could not be installed or measured. Part of the report, never a reason to stop."""

    def __init__(self, peer: Peer, doing: str, output: str) -> None:
        lines = [said for line in output.splitlines() if (said := line.strip(FRAME))]
        reason = lines[-1] if lines else "it said nothing"
        super().__init__(f"{doing} {peer.requirement}: {reason[:REASON_LENGTH]}")


def python_of(peer: Peer) -> Path:
    """One for a peer on all its stores. Installs when what should be there differs from what the
    last installation left."""
    folder = FOLDER / peer.name
    wanted = "\n".join((peer.requirement, *peer.beside))
    installed = folder / INSTALLED
    if not installed.exists() or installed.read_text() != wanted:
        for command in _installation(folder, _interpreter_for(peer), wanted.splitlines()):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise PeerFailed(peer, "installing", done.stderr or done.stdout)
        installed.write_text(wanted)
    return _python_in(folder)


def _interpreter_for(peer: Peer) -> str:
    """Ours, so that all are measured alike, unless it is too old for the peer."""
    if sys.version_info >= peer.python:
        return sys.executable
    wanted = "python{}.{}".format(*peer.python)
    for found in (shutil.which(wanted), *Path(sys.base_prefix).parent.glob(f"*/bin/{wanted}")):
        if found and not subprocess.run((found, "--version"), capture_output=True).returncode:
            return str(found)
    raise PeerFailed(peer, "installing", f"it needs {wanted}, which was not found")


def _installation(
    folder: Path, interpreter: str, requirements: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    python = str(_python_in(folder))
    if uv := shutil.which("uv"):
        return (
            (uv, "venv", "--quiet", "--clear", "--python", interpreter, str(folder)),
            (uv, "pip", "install", "--quiet", "--python", python, *requirements),
        )
    return (
        (interpreter, "-m", "venv", "--clear", str(folder)),
        (python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *requirements),
    )


def _python_in(folder: Path) -> Path:
    return folder / "bin" / "python"
