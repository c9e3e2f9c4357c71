"""Random flows, and the program that runs them: each handler tells the diary what it was given and
how it ended, before the store hears of it.

    python -m tests.support.random_flows worker '{"queues": {"default": 4}, "lease": 2}'

Every value says which attempt has made it: `n3@17` is what the node `n3` has returned under the
fence 17. So whoever is given a value can tell where it comes from. Each attempt throws its own dice
for how it ends: a node that is tried again may fare otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from holdfast.app import App
from holdfast.context import Context
from holdfast.declaring.flows import Flow
from holdfast.declaring.nodes import Node, any_of, ended, failed, quorum
from holdfast.errors import BadFlow
from holdfast.job.ends import Fail, Skip
from tests.support.program import SOON, diary, work

FAILS, SKIPS = 0.12, 0.05
MOST_ELEMENTS = 6
SHARE = 0.5
app = App()
STAND_INS = ("all(", "failed(")
"""What a flow names the nodes that stand for the elements of a map."""


# What a flow looks like -----------------------------------------------------------------------

Kind = Literal["work", "list", "map", "grow", "child"]
GateKind = Literal["all", "any", "quorum", "failed", "ended", "share"]


WORKS: list[Kind] = ["work"] * 6
GATES: list[GateKind] = ["all", "all", "all", "any", "quorum", "failed", "ended"]


@dataclass(frozen=True)
class Gate:
    """What a node waits for. `all`: the one node that it names must succeed, and of a map all its
    elements; `share`: half of the elements of a map, and then no gate wants all of them."""

    kind: GateKind
    names: tuple[str, ...]
    need: int = 1
    cancels: bool = False
    is_taken: bool = False


@dataclass(frozen=True)
class Spec:
    """One node: `over` is the node whose list a map goes through, `before` the node that what it
    adds comes before."""

    name: str
    kind: Kind
    gates: tuple[Gate, ...] = ()
    over: str = ""
    before: str = ""


@dataclass(frozen=True)
class Plan:
    """A whole flow."""

    number: int
    nodes: dict[str, Spec] = field(default_factory=dict)

    @classmethod
    def number_of(cls, number: int, seed: int) -> Plan:
        chance = random.Random(f"{seed} {number}")
        plan = cls(number)
        for n in range(chance.randrange(4, 12)):
            plan._add(f"n{n}", chance)
        plan._let_grow(chance)
        return plan

    def _add(self, name: str, chance: random.Random) -> None:
        lists = [spec.name for spec in self.nodes.values() if spec.kind == "list"]
        kinds: list[Kind] = [*WORKS, "list", "list", "child", "grow"]
        kind = "map" if lists and chance.random() < 0.4 else chance.choice(kinds)
        if kind == "map":
            over = chance.choice(lists)
            self.nodes[name] = Spec(name, kind, (Gate("all", (over,)),), over)
            return
        gates: list[Gate] = []
        for _ in range(chance.choice([0, 1, 1, 1, 2, 2])):
            if self.nodes:
                gates += self._gate(chance)
        shares = [gate.names for gate in gates if gate.kind == "share"]
        left = [gate for gate in gates if gate.kind != "all" or gate.names not in shares]
        self.nodes[name] = Spec(name, kind, tuple(left))

    def _gate(self, chance: random.Random) -> list[Gate]:
        """One that no other node of these is named by twice would do as well."""
        latest = list(self.nodes)[-5:]
        some = chance.sample(latest, min(len(latest), chance.randrange(1, 4)))
        kind = chance.choice(GATES)
        maps = [one for one in some if self.nodes[one].kind == "map"]
        if maps and chance.random() < 0.6:
            whole: GateKind = "all" if chance.random() < 0.5 else "share"
            return [Gate(whole, (maps[0],), is_taken=True)]
        if kind == "all" or (kind in ("any", "quorum") and len(some) < 2):
            return [Gate("all", (one,), is_taken=True) for one in some]
        if kind in ("any", "quorum"):
            need = 1 if kind == "any" else chance.randrange(1, len(some) + 1)
            cancels, taken = chance.random() < 0.3, chance.random() < 0.7
            return [Gate(kind, tuple(some), need, cancels, taken)]
        need = 1 if kind == "failed" else len(some)
        return [Gate("failed" if kind == "failed" else "ended", tuple(some), need)]

    def _let_grow(self, chance: random.Random) -> None:
        """What a grower adds comes before a node that waits for the grower, if there is one."""
        for spec in list(self.nodes.values()):
            if spec.kind == "grow":
                waiting = [
                    one.name
                    for one in self.nodes.values()
                    if Gate("all", (spec.name,), is_taken=True) in one.gates and one.kind != "map"
                ]
                before = chance.choice([*waiting, ""])
                self.nodes[spec.name] = Spec(spec.name, "grow", spec.gates, before=before)

    @property
    def last(self) -> set[str]:
        """The nodes that nobody waits for."""
        needed = {
            name for spec in self.nodes.values() for gate in spec.gates for name in gate.names
        }
        return self.nodes.keys() - needed

    def build(self) -> Flow:
        flow = app.flow("random")
        built: dict[str, Any] = {}
        for spec in self.nodes.values():
            built[spec.name] = self._built(flow, spec, built)
        return flow

    def _built(self, flow: Flow, spec: Spec, built: dict[str, Any]) -> Node[Any]:
        if spec.kind == "map":
            items = built[spec.over].output
            return flow.map(element, items, flow=self.number, name=spec.name).named(spec.name)
        takes: dict[str, Any] = {}
        conditions: list[Any] = []
        for n, gate in enumerate(spec.gates):
            condition = condition_of(gate, [built[name] for name in gate.names])
            if gate.kind in ("share", "failed", "ended") or not gate.is_taken:
                conditions.append(condition)
            if gate.is_taken:
                takes[str(n)] = taken(gate, condition, [built[name] for name in gate.names])
        task = TASKS[spec.kind]
        more = {"before": spec.before} if spec.kind == "grow" else {}
        node: Node[Any] = flow.add(task, flow=self.number, name=spec.name, takes=takes, **more)
        return node.named(spec.name).after(*conditions)


def condition_of(gate: Gate, nodes: list[Any]) -> Any:
    losers: Literal["cancel", "let_run"] = "cancel" if gate.cancels else "let_run"
    match gate.kind:
        case "all":
            return nodes[0]
        case "share":
            return nodes[0].at_least(SHARE)
        case "any":
            return any_of(*nodes, losers=losers)
        case "quorum":
            return quorum(gate.need, *nodes, losers=losers)
        case "failed":
            return failed(*nodes)
        case "ended":
            return ended(*nodes)


def taken(gate: Gate, condition: Any, nodes: list[Any]) -> Any:
    """What the node gets: a value, or a list of values."""
    match gate.kind:
        case "any":
            return condition.output
        case "quorum":
            return condition.outputs
        case _ if hasattr(nodes[0], "outputs"):
            return nodes[0].outputs
        case _:
            return nodes[0].output


# What its nodes do ----------------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a handler says of itself. `how` it ended: `return`, `fail` or `skip`."""

    flow: int
    name: str
    takes: dict[str, Any] = {}
    how: str = ""
    value: Any = None


@asynccontextmanager
async def attempt(
    ctx: Context, flow: int, name: str, takes: dict[str, Any]
) -> AsyncIterator[random.Random]:
    """Tells that the handler has begun, waits a moment, and may fail or skip the node. What ends
    the attempt from outside is no end of the handler."""
    chance = random.Random(f"{flow} {name} {ctx.job.id} {ctx.fence}")
    note("begun", ctx, Told(flow, name, takes))
    await asyncio.sleep(chance.choice([0, 0.005, 0.05, 0.3]))
    dice = chance.random()
    try:
        if dice < FAILS:
            raise Fail("as the dice said")
        if dice < FAILS + SKIPS:
            raise Skip("as the dice said")
        yield chance
    except (Fail, BadFlow) as error:
        note("done", ctx, Told(flow, name, how="fail"))
        raise Fail(str(error)) from error
    except Skip:
        note("done", ctx, Told(flow, name, how="skip"))
        raise


def returned(ctx: Context, flow: int, name: str, value: Any) -> Any:
    note("done", ctx, Told(flow, name, how="return", value=value))
    return value


def note(what: str, ctx: Context, told: Told) -> None:
    text = msgspec.json.encode(told).decode()
    diary().note(what, job=ctx.job.id, fence=ctx.fence, text=text)


@app.task(retry=SOON, max_crashes=1_000)
async def labour(ctx: Context, flow: int, name: str, takes: dict[str, Any]) -> str:
    async with attempt(ctx, flow, name, takes):
        return str(returned(ctx, flow, name, f"{name}@{ctx.fence}"))


@app.task(retry=SOON, max_crashes=1_000)
async def enumerate_items(ctx: Context, flow: int, name: str, takes: dict[str, Any]) -> list[str]:
    """A list that another attempt would make otherwise, of another length."""
    async with attempt(ctx, flow, name, takes) as chance:
        count = chance.randrange(MOST_ELEMENTS + 1)
        items = [f"{name}@{ctx.fence}/{n}" for n in range(count)]
        return list(returned(ctx, flow, name, items))


@app.task(retry=SOON, max_crashes=1_000)
async def element(ctx: Context, item: str, flow: int, name: str) -> str:
    own = f"{name}[{item}]"
    async with attempt(ctx, flow, own, {"item": item}):
        return str(returned(ctx, flow, own, f"{own}@{ctx.fence}"))


@app.task(retry=SOON, max_crashes=1_000)
async def grow(ctx: Context, flow: int, name: str, takes: dict[str, Any], before: str) -> str:
    """Adds two nodes, one behind the other."""
    async with attempt(ctx, flow, name, takes):
        value = f"{name}@{ctx.fence}"
        first = ctx.flow.add(labour, flow=flow, name=f"{name}.a", takes={"by": value})
        second = ctx.flow.add(
            labour, flow=flow, name=f"{name}.b", takes={"0": first.named(f"{name}.a").output}
        )
        second.named(f"{name}.b")
        if before:
            second.before(before)
        await ctx.flow.extend()
        return str(returned(ctx, flow, name, value))


@app.flow_task(retry=SOON, max_crashes=1_000)
async def call(ctx: Context, flow: int, name: str, takes: dict[str, Any]) -> Flow:
    """A node that is a flow itself, of two nodes."""
    note("begun", ctx, Told(flow, name, takes))
    child = app.flow("child")
    first = child.add(labour, flow=flow, name=f"{name}/a", takes={})
    child.add(labour, flow=flow, name=f"{name}/b", takes={"0": first.output})
    return child


TASKS: dict[str, Any] = {"work": labour, "list": enumerate_items, "grow": grow, "child": call}


def plans(count: int, seed: int) -> Iterator[Plan]:
    return (Plan.number_of(number, seed) for number in range(count))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(work(app, **msgspec.json.decode(sys.argv[2])))
