"""Metrics as text that Prometheus reads (format 0.0.4).

It is written here and not by `prometheus-client`: that package keeps metrics of its own, which a
program changes, and we only write down numbers that the store keeps. A worker's health port needs
no extra for it. The tests read the text back with the parser of that package.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.telemetry.metrics import Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def to_text(families: Iterable[Family]) -> str:
    """A metric without samples is left out."""
    lines = [line for family in families if family.samples for line in _lines(family)]
    return "".join(f"{line}\n" for line in lines)


def _lines(family: Family) -> Iterable[str]:
    metric = family.metric
    yield f"# HELP {metric.name} {metric.about}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for sample in family.samples:
        yield f"{metric.name}{sample.suffix}{_labels(sample)} {_number(sample.value)}"


def _labels(sample: Sample) -> str:
    """A label with an empty value means the same as none."""
    shown = [f'{name}="{escaped(value)}"' for name, value in sample.labels.items() if value]
    return f"{{{','.join(shown)}}}" if shown else ""


def escaped(value: str) -> str:
    r"""A value that may stand between quotes.

    >>> print(escaped('a "b" \\ c'))
    a \"b\" \\ c
    """
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    """Whole numbers stay exact, however large."""
    return str(value) if isinstance(value, int) else repr(float(value))
