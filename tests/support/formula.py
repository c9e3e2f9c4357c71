"""Where the nodes of a flow should be, by their formulas alone: the brute-force evaluation that
stores are compared with. It knows no gates, edges or counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.flow.model import BITS, FLOW_ENDED, FlowState, is_bad_end, state_at_end
from holdfast.job.state import ENDED, JobState
from tests.support.flows import Waits, Wanted, every

S = JobState


@dataclass
class FlowModel:
    """A flow as its formulas say. A node that could run is `READY` here, whoever runs it."""

    graph: dict[str, Waits]
    states: dict[str, JobState] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    """Nodes that were skipped because of others: who skips itself has lost nothing."""
    let_go: set[str] = field(default_factory=set)
    """Losers of a race that a skipped node waited for."""
    flow: FlowState = FlowState.RUNNING
    cancel_asked: bool = False
    released: int = 0
    sinks: frozenset[str] = frozenset()
    """Nodes that nobody waited for when they were written. One that grows on stays a sink."""

    def __post_init__(self) -> None:
        needed = {one for name in self.graph for gate in self.gates(name) for one in gate.names}
        self.sinks = frozenset(self.graph.keys() - needed)
        for name in self.graph:
            self.states[name] = S.BLOCKED if self.gates(name) else S.READY

    def gates(self, name: str) -> list[Wanted]:
        """What the node waits for. Plain names stand for one gate that needs all of them."""
        waits = self.graph[name]
        some = [waits] if isinstance(waits, Wanted) else waits
        plain = [one for one in some if isinstance(one, str)]
        wanted = [one for one in some if isinstance(one, Wanted)]
        return [every(*plain), *wanted] if plain else wanted

    def end(self, name: str, state: JobState) -> None:
        self.states[name] = state
        self.settle()

    def grow(self, nodes: Mapping[str, Waits], gates: Mapping[str, Waits] | None = None) -> None:
        """Nodes that are new, and further gates of nodes that are blocked."""
        needed = {name for waits in nodes.values() for name in _names(waits)}
        self.sinks |= nodes.keys() - needed
        for name, waits in nodes.items():
            self.graph[name] = waits
            self.states[name] = S.BLOCKED if self.gates(name) else S.READY
        for name, more in (gates or {}).items():
            self.sinks -= set(_names(more)) & nodes.keys()
            own = self.gates(name)
            further = [more] if isinstance(more, Wanted) else more
            self.graph[name] = [*own, *further]
        self.settle()

    def behind(self, name: str) -> set[str]:
        """This node, all that wait for it, and for those."""
        found, ahead = {name}, [name]
        while ahead:
            one = ahead.pop()
            waiting = {
                other
                for other in self.graph
                if any(one in gate.names for gate in self.gates(other))
            }
            ahead += waiting - found
            found |= waiting
        return found

    def reopen(self, again: set[str], wait: set[str]) -> None:
        for name in again | wait:
            self.states[name] = S.READY if name in again else S.BLOCKED
        assert all(map(self.is_true, again)), "what begins at once has all that it waits for"
        self.bad -= again | wait
        self.let_go -= again | wait
        self.skipped -= again | wait
        if self.flow in FLOW_ENDED:
            self.flow = FlowState.RUNNING
        self.cancel_asked = False
        self.settle()

    def settle(self) -> None:
        """Evaluate every formula again and again, until nothing changes any more.

        All formulas of a round see the same ends: a node that two things make hopeless is skipped
        for what came first, and that is the end itself rather than a skip that follows from it."""
        while self.flow is FlowState.RUNNING and (moves := self._round()):
            for name, state, is_bad in moves:
                self.states[name] = state
                self.released += state is S.READY
                if state is S.SKIPPED:
                    self.skipped.add(name)
                if is_bad:
                    self.bad.add(name)
        if self.flow not in FLOW_ENDED and not self.live:
            while late := {name for name in self.states if self._failed_late(name)}:
                self.bad |= late
            failed = sum(self.is_bad(name) for name in self.sinks)
            broke = bool({S.FAILED, S.EXPIRED} & set(self.states.values()))
            self.flow = state_at_end(failed, cancel_asked=self.cancel_asked, has_failure=broke)

    @property
    def live(self) -> int:
        return sum(state not in ENDED for state in self.states.values())

    def is_bad(self, name: str) -> bool:
        return is_bad_end(self.states[name], is_bad=name in self.bad)

    def is_true(self, name: str) -> bool:
        """Whether the formula of a node holds, by the ends of its upstreams."""
        return all(self.counted(gate)[0] >= gate.need for gate in self.gates(name))

    def _failed_late(self, name: str) -> bool:
        """Whether a node that was skipped for no bad end has lost to one after all. All nodes have
        ended."""
        if name not in self.skipped - self.bad:
            return False
        return any(
            self.is_bad(one) and one not in self.let_go and not gate.wants & BITS[self.states[one]]
            for gate in self.hopeless(name)
            for one in gate.names
        )

    def hopeless(self, name: str) -> list[Wanted]:
        """The gates because of which the formula can no longer be true."""
        found = []
        for gate in self.gates(name):
            won, lost, _ = self.counted(gate)
            if lost > len(gate.names) - gate.need and won < gate.need:
                found.append(gate)
        return found

    def counted(self, gate: Wanted) -> tuple[int, int, bool]:
        """How many upstreams won and lost, and whether one that lost ended badly."""
        ended = [name for name in gate.names if self.states[name] in ENDED]
        lost = [name for name in ended if not gate.wants & BITS[self.states[name]]]
        return len(ended) - len(lost), len(lost), any(map(self.is_bad, lost))

    def _round(self) -> list[tuple[str, JobState, bool]]:
        """The nodes that leave blocked now, to where, and whether their skip is a bad end."""
        moves = []
        for name, state in self.states.items():
            if state is not S.BLOCKED:
                continue
            if hopeless := self.hopeless(name):
                is_bad = any(self.counted(gate)[2] for gate in hopeless)
                moves.append((name, S.SKIPPED, is_bad))
            elif self.is_true(name):
                moves.append((name, S.READY, False))
        return moves


def _names(waits: Waits) -> list[str]:
    some = [waits] if isinstance(waits, Wanted) else waits
    return [name for one in some for name in ((one,) if isinstance(one, str) else one.names)]
