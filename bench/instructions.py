"""`python -m bench.instructions`: how many instructions a plain job costs its worker.

Valgrind counts them, so the count does not depend on what else the machine does, as times do. A
worker of one process drains a queue under callgrind, once with few jobs and once with many: what
they differ by, divided by the jobs that they differ by, is the cost of one job from its claim to
its end. What a server does is not counted.

Two trees are compared by running each tree's own copy of this script: `--beside TREE` runs the one
of another checkout by turns with this one, and prints the ratio of the least counts. Counts of one
tree differ by about 1% from run to run on SQLite and Postgres. On Valkey they may differ by half:
how many jobs share a round trip depends on how soon the server answers.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.places import STORES, Place, places, store_url
from bench.program import ROLES, on_fast_loop
from bench.ticks import new_ticks
from holdfast.client.client import Client
from holdfast.job.state import LIVE

FEW, MANY = 200, 2_200
SLOTS = 100
LOOK_EVERY = 0.2
LONGEST = 300.0
SELDOM = {"HOLDFAST_POLL": "600", "HOLDFAST_LEASE": "3600"}
"""What a worker does by the clock it does as seldom as it may: a worker under callgrind takes fifty
times as long, and on a busy machine longer."""
ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="only this one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path, metavar="TREE", help="another checkout, by turns")
    parser.add_argument("--json", action="store_true", help="one round, for another tree to read")
    chosen = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("bench.instructions needs valgrind: install the package valgrind")
    stores = tuple(chosen.store or STORES)
    if chosen.json:
        print(msgspec.json.encode(measured(stores)).decode())
        return
    trees = [ROOT, *([chosen.beside.resolve()] if chosen.beside else [])]
    rounds = [[_measured_in(tree, stores) for tree in trees] for _ in range(chosen.rounds)]
    for store in stores:
        print(line_of(store, [[counts[store] for counts in each] for each in rounds]))


def line_of(store: str, rounds: list[list[float]]) -> str:
    """What is printed of a store. A round has a count of this tree, and perhaps one of another."""
    here = [counts[0] for counts in rounds]
    text = f"{store:9} {min(here):>10,.0f} instructions a job ({_each(here)})"
    if len(rounds[0]) == 1:
        return text
    beside = [counts[1] for counts in rounds]
    ratio = min(here) / min(beside)
    return f"{text}, beside {min(beside):,.0f} ({_each(beside)}): {ratio:.3f}"


def _each(counts: list[float]) -> str:
    return " ".join(f"{count:,.0f}" for count in counts)


def _measured_in(tree: Path, stores: tuple[str, ...]) -> dict[str, float]:
    """One round by a tree's own script and packages."""
    own = tree / ".venv/bin/python"
    command = [str(own if own.exists() else sys.executable), "-m", "bench.instructions", "--json"]
    command += [word for store in stores for word in ("--store", store)]
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=dict[str, float])


def measured(stores: tuple[str, ...]) -> Mapping[str, float]:
    """Instructions a job, by store."""
    counts: dict[str, float] = {}

    async def measure(place: Place) -> None:
        few, many = await counted(place, FEW), await counted(place, MANY)
        counts[place.name] = (many - few) / (MANY - FEW)

    with places(stores) as found:
        for place in found:
            on_fast_loop(measure(place))
    return counts


async def counted(place: Place, jobs: int) -> int:
    """The instructions of a worker's whole life in which it runs these jobs and nothing else."""
    program = ROLES["noop"]
    async with store_url(place) as url:
        made = program(url, lambda number: None)
        async with made.app as app:
            await made.task.enqueue_many((number,) for number in range(jobs))
            await place.settle(url)
            with tempfile.TemporaryDirectory() as folder, new_ticks(jobs) as (ticks, marks):
                out = Path(folder, "callgrind.out")
                worker = _under_callgrind(out, url, ticks)
                try:
                    await _all_ended(app.client, worker)
                    assert marks.count() == jobs
                    worker.send_signal(signal.SIGTERM)
                    await asyncio.to_thread(worker.wait, 60)
                finally:
                    worker.kill()
                return _total(out)


def _under_callgrind(out: Path, url: str, ticks: Path) -> subprocess.Popen[bytes]:
    """With a seed for hashes, because the order of sets decides which code runs."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    command += [sys.executable, "-m", "bench.program", "noop", url, str(ticks), str(SLOTS)]
    env = {**os.environ, "PYTHONHASHSEED": "0", **SELDOM}
    return subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL)


async def _all_ended(client: Client, worker: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(LONGEST):
        while await client.count(states=LIVE):
            if worker.poll() is not None:
                raise RuntimeError(f"the worker ended early, with {worker.returncode}")
            await asyncio.sleep(LOOK_EVERY)


def _total(out: Path) -> int:
    """What callgrind writes last: `totals: N`."""
    [line] = [line for line in out.read_text().splitlines() if line.startswith("totals:")]
    return int(line.split()[1])


if __name__ == "__main__":
    main()
