"""Limits and their buckets, drawn for people and as documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from holdfast.cli.output import duration_text, make_table, make_text
from holdfast.client.limits import FOR
from holdfast.job.ids import WorkerId
from holdfast.job.json_text import shown_value
from holdfast.job.passing import is_total, steps_to
from holdfast.job.text import counted
from holdfast.limits.model import BucketInfo, Budget, Concurrency, LimitInfo, Rate, Settings, shown
from holdfast.store.contract.audit import AuditEntry
from holdfast.store.contract.limits import BucketHolder, BucketWaiter

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


def limit_document(limit: LimitInfo, buckets: list[BucketInfo]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(limit)
    last = _last_of_paths(limit.settings, buckets)
    sums = {
        field: sum(getattr(one, field) for one in last) for field in ("in_use", "spent", "added")
    }
    sums |= {"waiting": sum(one.waiting for one in buckets), "looked_at": len(buckets)}
    return document | {"settings": shown(limit.settings), **sums, "opens_in": _opens_in(buckets)}


def _last_of_paths(settings: Settings, buckets: list[BucketInfo]) -> list[BucketInfo]:
    """The buckets whose sums add up: what is spent of `a/b` is spent of `a` too."""
    if not isinstance(settings, Budget):
        return buckets
    leading = {step for one in buckets for step in steps_to(one.name)}
    return [one for one in buckets if one.name not in leading]


def _opens_in(buckets: list[BucketInfo]) -> float | None:
    """When time opens the first of the buckets at which jobs wait."""
    times = (one.opens_in for one in buckets if one.waiting > one.stuck)
    return min((seconds for seconds in times if seconds is not None), default=None)


def draw_limits(
    limits: list[LimitInfo], buckets: dict[str, list[BucketInfo]]
) -> Iterator[RenderableType]:
    if not limits:
        yield "no limits yet"
        return
    table = make_table("=limit", "lets pass", ">keys", ">used", ">lines waiting", ">opens", "")
    for one in limits:
        some = buckets[one.name]
        last = _last_of_paths(one.settings, some)
        waiting = sum(bucket.waiting for bucket in some)
        opens = _opens_in(some)
        part = f" by the first {len(some):,}" if len(some) < one.buckets else ""
        table.add_row(
            one.name,
            _settings_text(one.settings),
            f"{one.buckets:,}",
            _used(one.settings, last) + part,
            f"{waiting:,}" + ("+" if part else ""),
            "" if opens is None else f"in {duration_text(opens)}",
            _standing(one, some),
        )
    yield table


def _settings_text(settings: Settings) -> str:
    """What a limit lets pass, in a few words."""
    match settings:
        case Concurrency(most):
            return f"{most:,} at once"
        case Rate(most, per, burst):
            saved = "" if burst is None else f", burst {burst:,}"
            return f"{most:,} per {duration_text(per)}{saved}"
        case Budget(hard, soft, every):
            zone = "" if settings.timezone == "UTC" else f" ({settings.timezone})"
            span = every if isinstance(every, str | None) else duration_text(every)
            told = "" if soft is None else f", soft {soft:,}"
            return f"{hard:,}" + ("" if span is None else f" per {span}{zone}") + told
    assert_never(settings)


def _used(settings: Settings, buckets: Sequence[BucketInfo]) -> str:
    in_use, spent, added = (
        sum(getattr(one, field) for one in buckets) for field in ("in_use", "spent", "added")
    )
    match settings:
        case Concurrency():
            return f"{in_use:,} run"
        case Rate():
            return f"{spent:,} began"
        case Budget():
            said = f"{spent + added:,} spent" + (f", {in_use:,} reserved" if in_use else "")
            return said + (f", topped up by {added:,}" if added else "")
    assert_never(settings)


def _standing(limit: LimitInfo, buckets: list[BucketInfo]) -> Text:
    if limit.retired:
        return make_text("retired", "yellow")
    if soft := sum(one.soft_reached for one in buckets):
        return make_text(f"{counted(soft, 'key')} at the soft amount", "yellow")
    return make_text("set by an operator" if limit.edited else "as declared", "dim")


def draw_shown(
    bucket: BucketInfo,
    holders: list[BucketHolder],
    stuck: list[BucketWaiter],
    acts: list[AuditEntry],
    workers: Mapping[WorkerId, str],
) -> Iterator[RenderableType]:
    """`workers` are the names of those that are registered."""
    yield from draw_bucket(bucket, stuck)
    if holders:
        table = make_table("=job", "task", "worker", "since")
        for holder in holders:
            worker = workers.get(holder.worker_id, holder.worker_id)
            since = f"{holder.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
            table.add_row(holder.job_id, holder.task, worker, since)
        yield table
    if acts:
        table = make_table("changed", "=by", "what", "key", "")
        for one in map(act_document, acts):
            key, settings = one["key"], one["settings"].items()
            words = [one["verb"], *(f"{option}={value}" for option, value in settings)]
            when = f"{one['at']:%Y-%m-%d %H:%M:%S} UTC"
            table.add_row(when, one["by"], " ".join(words), key or "", one["outcome"])
        yield table


def act_document(act: AuditEntry) -> dict[str, Any]:
    """Settings of limits are no secrets, and neither are the keys that people ask about."""
    said = shown_value(act.arguments)
    settings = dict(said) if isinstance(said, dict) else {}
    key = settings.pop(FOR, None)
    verb = act.verb.removeprefix("limits.")
    facts = {"at": act.begun_at, "by": act.by, "verb": verb, "key": key, "settings": settings}
    return facts | {"outcome": act.outcome.value, "changed": act.changed}


def bucket_document(bucket: BucketInfo, holders: list[BucketHolder]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(bucket)
    document["settings"] = None if bucket.settings is None else shown(bucket.settings)
    return document | {"key": bucket.key, "limit": bucket.limit, "holders": holders}


def draw_bucket(bucket: BucketInfo, stuck: Sequence[BucketWaiter] = ()) -> Iterator[RenderableType]:
    named = f"limit {bucket.limit}" + (f", key {bucket.key}" if bucket.key else "")
    if bucket.settings is None:
        yield _not_defined(bucket, named)
        return
    own = " (set for this key)" if bucket.override is not None else ""
    yield f"{named}: {_settings_text(bucket.settings)}{own}"
    yield f"  {_used(bucket.settings, [bucket])}"
    if bucket.resets_in is not None:
        yield f"  begins anew in {duration_text(bucket.resets_in)}"
    if bucket.soft_reached:
        yield make_text("  the soft amount is reached", "yellow")
    if bucket.retired:
        yield make_text("  retired: it holds nothing up", "yellow")
    if bucket.drained_for is not None:
        yield make_text(f"  shut for another {duration_text(bucket.drained_for)}", "yellow")
    if bucket.waiting:
        needs = "" if bucket.needs in (None, 1) else f"; the first needs {bucket.needs:,}"
        yield f"  {counted(bucket.waiting, 'line')} waiting{needs}{_opens(bucket)}"
    for first in stuck:
        lines = counted(bucket.stuck, "line")
        said = f"  of which {lines} can never pass: job {first.job_id} needs {first.needs:,}"
        yield make_text(said, "yellow")


def _not_defined(bucket: BucketInfo, named: str) -> Text:
    if is_total(bucket.name):
        said = f"queue {bucket.key} has no total: 'holdfast queues tune' gives it --max-running"
        return make_text(said, "dim")
    return make_text(f"{named}: not defined, so no job of it begins", "red")


def _opens(bucket: BucketInfo) -> str:
    if bucket.opens_in is None or bucket.waiting <= bucket.stuck:
        return ""
    return f"; opens in {duration_text(bucket.opens_in)}"
