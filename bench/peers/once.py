"""One round of one peer: its script in its environment, and the sample it prints."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from bench.measure import Sample
from bench.peers.environments import PeerFailed, python_of
from bench.peers.roster import Peer

ROOT = Path(__file__).parents[2]
LONGEST = 240.0
"""Seconds for a round, filling included; nobody needs more than a minute."""
STOPPING = 20.0


async def measured_once(peer: Peer, url: str, workload: str) -> Sample:
    python = await asyncio.to_thread(python_of, peer)
    runner, module = "bench.peers.scripts.run", peer.module(workload)
    command = (str(python), "-m", runner, module, workload, str(peer.jobs))
    environment = {
        "PATH": f"{python.parent}:{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(ROOT),
        "PEER_URL": url,
    }
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=os.environ | environment, stdout=PIPE, stderr=PIPE
    )
    try:
        printed, complaint = await asyncio.wait_for(process.communicate(), LONGEST)
    except TimeoutError:
        raise PeerFailed(peer, "measuring", f"no figure within {LONGEST:g} s") from None
    finally:
        await _stopped(process)
    if process.returncode:
        raise PeerFailed(peer, "measuring", complaint.decode(errors="replace"))
    return sample_in(printed.decode())


def sample_in(printed: str) -> Sample:
    """The last line: a peer's own start may print before it."""
    sample: Sample = json.loads(printed.splitlines()[-1])
    return sample


async def _stopped(process: Process) -> None:
    """Asked first, because it has workers of its own to stop."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOPPING)
    except TimeoutError:
        process.kill()
        await process.wait()
