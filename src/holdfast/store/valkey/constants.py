"""What a script may know without being given it: positions of values, sets of states, limits.

A rule that Python knows already is handed to the scripts from here, so that it is said once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import msgspec

from holdfast.flow.model import BITS, CASCADE_LIMIT
from holdfast.job.happening import DEBOUNCED, FIRST_KEPT, NEWEST_KEPT
from holdfast.job.passing import QUEUE_LIMIT
from holdfast.job.record import ERRORS_KEPT
from holdfast.job.signal import OWN_SIGNALS
from holdfast.job.state import ENDED, LIVE, UNTIMED, WAITING, JobState
from holdfast.job.ties import Tie
from holdfast.job.transition import SIGNAL_IS_THERE
from holdfast.limits import admission, alarms, turns
from holdfast.limits.model import SLICES
from holdfast.store.contract.failures import SAMPLE_SECONDS
from holdfast.store.contract.queues import RETAINED_BY, QueueSettings
from holdfast.store.contract.wakeups import FEW_JOBS
from holdfast.store.valkey.flow_layout import EDGE_ALONE, OF_FLOWS, GateRow, NodeRow, NodeState
from holdfast.store.valkey.layout import (
    ID_LENGTH,
    NUMBER_LENGTH,
    SEQ_LENGTH,
    STORED,
    TURN_LENGTH,
    Body,
    BucketRow,
    Record,
    ScheduleRow,
    width,
)
from holdfast.store.valkey.moments import LATEST
from holdfast.store.valkey.requests import REQUESTED, LineRow
from holdfast.store.valkey.spread import SPREADS


@cache
def constants() -> Mapping[str, str]:
    """The name of each constant, and its value as Lua."""
    rows = {**STORED, **REQUESTED, **OF_FLOWS}
    positions = {
        f"{prefix}{name}".upper(): str(position)
        for prefix, row in rows.items()
        for position, name in enumerate(row.__struct_fields__, 1)
    }
    fresh = msgspec.structs.asdict(QueueSettings())
    return positions | {
        "RECORD_WIDTH": str(width(Record)),
        "BODY_WIDTH": str(width(Body)),
        "LINE_WIDTH": str(width(LineRow)),
        "SCHEDULE_WIDTH": str(width(ScheduleRow)),
        "NODE_WIDTH": str(width(NodeState)),
        "NODE_ROW_WIDTH": str(width(NodeRow)),
        "GATE_WIDTH": str(width(GateRow)),
        "LIVE": _set(LIVE),
        "WAITING": _set(WAITING),
        "ENDED": _set(ENDED),
        "UNTIMED": _set(UNTIMED),
        "RETAIN": _table({state: f"'{RETAINED_BY[state]}'" for state in sorted(ENDED)}),
        "FRESH_SETTINGS": _table({name: repr(one) for name, one in fresh.items() if one}),
        "NEW_BUCKET": _values(msgspec.structs.astuple(BucketRow())),
        "BITS": _table({state: str(bit) for state, bit in BITS.items()}),
        "CASCADE_LIMIT": str(CASCADE_LIMIT),
        "EDGE_ALONE": str(EDGE_ALONE),
        "TOTALS": f"'{QUEUE_LIMIT}'",
        "TIE_NODE": str(int(Tie.NODE)),
        "TIE_PERMITS": str(int(Tie.PERMITS)),
        "ALARM_SOFT": str(alarms.SOFT),
        "ALARM_OVERRUN": str(alarms.OVERRUN),
        "ALARM_SOFT_TOLD": str(alarms.SOFT_TOLD),
        "ALARM_ALONE": str(alarms.ALONE),
        "ALARM_OVERRUN_TOLD": str(alarms.OVERRUN_TOLD),
        "QUANTUM": str(turns.QUANTUM),
        "ROOMY": str(admission.ROOMY),
        "SLICES": str(SLICES),
        "STRIDE": str(turns.STRIDE),
        "TIE_PARENT": str(int(Tie.PARENT)),
        "TIE_UNDO": str(int(Tie.UNDO)),
        "TIE_STEPS": str(int(Tie.STEPS)),
        "TIE_BEGUN": str(int(Tie.BEGUN)),
        "ERRORS_KEPT": str(ERRORS_KEPT),
        "FIRST_KEPT": str(FIRST_KEPT),
        "NEWEST_KEPT": str(NEWEST_KEPT),
        "SIGNAL_IS_THERE": f"'{SIGNAL_IS_THERE}'",
        "OWN_SIGNALS": f"'{OWN_SIGNALS}'",
        "DEBOUNCED": f"'{DEBOUNCED}'",
        "FEW_JOBS": str(FEW_JOBS),
        "SAMPLE_SECONDS": f"{SAMPLE_SECONDS:g}",
        "LATEST": str(LATEST),
        "SEQ_LENGTH": str(SEQ_LENGTH),
        "ENTRY_LENGTH": str(SEQ_LENGTH + ID_LENGTH),
        "TURN_LENGTH": str(TURN_LENGTH),
        "NUMBER_LENGTH": str(NUMBER_LENGTH),
        "SPREADS": str(SPREADS),
    }


def _set(states: Iterable[JobState]) -> str:
    return _table(dict.fromkeys(sorted(states), "true"))


def _values(row: Iterable[int | bool]) -> str:
    """The values of a row, between the braces of the list that a script makes."""
    return ", ".join(str(one).lower() for one in row)


def _table(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name} = {value}" for name, value in values.items()) + "}"
