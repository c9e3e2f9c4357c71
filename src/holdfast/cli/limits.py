"""`holdfast limits list|show|set|weigh|top-up|reset|drain|retire`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, assert_never

import click
import msgspec

from holdfast.cli.filters import wait
from holdfast.cli.output import duration_text, make_table, make_text
from holdfast.cli.program import limits_group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.limits import FOR
from holdfast.job.json_text import shown_value
from holdfast.job.passing import is_total, steps_to
from holdfast.job.text import counted
from holdfast.limits.model import (
    BucketInfo,
    Budget,
    Concurrency,
    LimitInfo,
    Rate,
    Settings,
    shown,
)
from holdfast.store.contract.audit import AuditEntry
from holdfast.store.contract.limits import BucketHolder, BucketWaiter

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BUCKETS_SHOWN = 1_000
HOLDERS_SHOWN = 20
ACTS_SHOWN = 10


@limits_group.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
async def list_limits(session: CommandSession, names: tuple[str, ...]) -> None:
    """List limits, with what they count and hold up: all, or those named."""
    async with session.client() as client:
        limits = await client.limits.all(*names)
        for name in names:
            _require_one(name, any(one.name == name for one in limits))
        buckets = {
            one.name: await client.limits.buckets(one.name, page=BUCKETS_SHOWN) for one in limits
        }
    documents = [_limit_document(one, buckets[one.name]) for one in limits]
    session.answer({"limits": documents}, lambda: _draw_limits(limits, buckets))


def _require_one(name: str, found: bool) -> None:
    if not found:
        raise UsageProblem(f"there is no limit {name!r}: see 'holdfast limits list'")


def _limit_document(limit: LimitInfo, buckets: list[BucketInfo]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(limit)
    last = _last_of_paths(limit.settings, buckets)
    sums = {
        field: sum(getattr(one, field) for one in last) for field in ("in_use", "spent", "added")
    }
    sums["waiting"] = sum(one.waiting for one in buckets)
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


def _draw_limits(
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
        table.add_row(
            one.name,
            settings_text(one.settings),
            f"{one.buckets:,}",
            _used(one.settings, last),
            f"{waiting:,}",
            "" if opens is None else f"in {duration_text(opens)}",
            _standing(one, some),
        )
    yield table


def settings_text(settings: Settings) -> str:
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


@limits_group.command("show")
@click.argument("name")
@click.option("--key", help="Which key; without, the bucket without a key.")
async def show_limit(session: CommandSession, name: str, key: str | None) -> None:
    """Show one bucket: what it counts, who holds it, when it opens, and who changed it."""
    async with session.client() as client:
        limits, which = client.limits, key or ""
        bucket = await limits.get(name, which)
        holders = await limits.holders(name, which, page=HOLDERS_SHOWN)
        stuck = await limits.waiters(name, which, page=1, never=True) if bucket.stuck else []
        acts = await limits.history(name, key, page=ACTS_SHOWN)
    document = _bucket_document(bucket, holders) | {"history": list(map(_act_document, acts))}
    session.answer(document, lambda: _draw_shown(bucket, holders, stuck, acts))


def _draw_shown(
    bucket: BucketInfo,
    holders: list[BucketHolder],
    stuck: list[BucketWaiter],
    acts: list[AuditEntry],
) -> Iterator[RenderableType]:
    yield from _draw_bucket(bucket, holders, stuck)
    if acts:
        table = make_table("changed", "=by", "what", "key", "")
        for one in map(_act_document, acts):
            key, settings = one["key"], one["settings"].items()
            words = [one["verb"], *(f"{option}={value}" for option, value in settings)]
            when = f"{one['at']:%Y-%m-%d %H:%M:%S} UTC"
            table.add_row(when, one["by"], " ".join(words), key or "", one["outcome"])
        yield table


def _act_document(act: AuditEntry) -> dict[str, Any]:
    """Settings of limits are no secrets, and neither are the keys that people ask about."""
    said = shown_value(act.arguments)
    settings = dict(said) if isinstance(said, dict) else {}
    key = settings.pop(FOR, None)
    verb = act.verb.removeprefix("limits.")
    facts = {"at": act.begun_at, "by": act.by, "verb": verb, "key": key, "settings": settings}
    return facts | {"outcome": act.outcome.value, "changed": act.changed}


def _bucket_document(bucket: BucketInfo, holders: list[BucketHolder]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(bucket)
    document["settings"] = None if bucket.settings is None else shown(bucket.settings)
    return document | {"key": bucket.key, "limit": bucket.limit, "holders": holders}


def _draw_bucket(
    bucket: BucketInfo, holders: list[BucketHolder], stuck: Sequence[BucketWaiter] = ()
) -> Iterator[RenderableType]:
    named = f"limit {bucket.limit}" + (f", key {bucket.key}" if bucket.key else "")
    if bucket.settings is None:
        yield _not_defined(bucket, named)
        return
    own = " (set for this key)" if bucket.override is not None else ""
    yield f"{named}: {settings_text(bucket.settings)}{own}"
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
    if holders:
        table = make_table("=job", "task", "worker", "since")
        for one in holders:
            since = f"{one.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
            table.add_row(one.job_id, one.task, one.worker_id, since)
        yield table


def _not_defined(bucket: BucketInfo, named: str) -> Text:
    if is_total(bucket.name):
        said = f"queue {bucket.key} has no total: 'holdfast queues tune' gives it --max-running"
        return make_text(said, "dim")
    return make_text(f"{named}: not defined, so no job of it begins", "red")


def _opens(bucket: BucketInfo) -> str:
    if bucket.opens_in is None or bucket.waiting <= bucket.stuck:
        return ""
    return f"; opens in {duration_text(bucket.opens_in)}"


@limits_group.command("set")
@click.argument("name")
@click.option("--key", help="Only this key.")
@click.option("--most", type=click.IntRange(min=0), help="How many at once, or per window.")
@click.option("--per", metavar="TIME", help="Of a rate: the window.")
@click.option("--burst", metavar="N|none", help="Of a rate: how many may be saved.")
@click.option("--hard", type=click.IntRange(min=0), help="Of a budget: how much may be spent.")
@click.option("--soft", metavar="N|none", help="Of a budget: from where on it is told.")
@click.option("--every", metavar="hour|day|month|TIME|none", help="Of a budget: its period.")
@click.option("--timezone", help="Of a budget: whose midnight ends the period.")
@click.option("--on-failure", type=click.Choice(["refund", "charge"]), help="Of a budget.")
@click.option("--inherit", is_flag=True, help="Let the key have the settings of its limit again.")
@click.option("--create", is_flag=True, help="Make a limit that no worker has declared yet.")
async def set_limit(
    session: CommandSession, name: str, key: str | None, inherit: bool, create: bool, **given: Any
) -> None:
    """Change a limit, or one key of it. It counts at once; what runs goes on."""
    changes = {
        option: _value(option, value) for option, value in given.items() if value is not None
    }
    if inherit and (key is None or changes):
        raise UsageProblem("--inherit goes with --key, and with no other option")
    if not (inherit or changes):
        raise UsageProblem("nothing to change: give --most, --per, --hard and so on, or --inherit")
    async with session.client() as client:
        if not (create or inherit or await client.limits.all(name)):
            instead = "add --create to make it before a worker declares it"
            raise UsageProblem(
                f"there is no limit {name!r}: see 'holdfast limits list', or {instead}"
            )
        if inherit:
            bucket = await client.limits.inherit(name, key or "", by=session.by)
        else:
            bucket = await client.limits.set(name, key=key, by=session.by, **changes)
    session.answer(_bucket_document(bucket, []), lambda: _draw_bucket(bucket, []))


def _value(option: str, given: Any) -> Any:
    if option in ("burst", "soft", "every") and given == "none":
        return None
    if option in ("burst", "soft"):
        if not given.isdecimal():
            raise UsageProblem(f"--{option} must be a whole number or 'none', got {given!r}")
        return int(given)
    if option == "every" and given in ("hour", "day", "month"):
        return given
    if option == "every":
        return wait("--every must be hour, day, month or none, or it", given)
    return wait("--per", given) if option == "per" else given


@limits_group.command("weigh")
@click.argument("key")
@click.argument("weight", metavar="WEIGHT|none")
async def weigh_key(session: CommandSession, key: str, weight: str) -> None:
    """Give a key of fairness (fair=) more or fewer turns than others, in every queue."""
    if weight != "none" and not weight.isdecimal():
        raise UsageProblem(f"WEIGHT must be a whole number or 'none', got {weight!r}")
    number = None if weight == "none" else int(weight)
    async with session.client() as client:
        await client.limits.weigh(key, number, by=session.by)
    said = f"weight {number:,}" if number is not None else "the weight of its jobs"
    session.answer({"key": key, "weight": number}, lambda: [f"key {key} has {said}"])


@limits_group.command("top-up")
@click.argument("name")
@click.argument("amount", type=int)
@click.option("--key", default="", help="Which key; without, the bucket without a key.")
async def top_up_limit(session: CommandSession, name: str, amount: int, key: str) -> None:
    """Let so much more be spent of a budget in its period; less after --, as in -- -500."""
    async with session.client() as client:
        bucket = await client.limits.top_up(name, amount, key=key, by=session.by)
    session.answer(_bucket_document(bucket, []), lambda: _draw_bucket(bucket, []))


@limits_group.command("reset")
@click.argument("name")
@click.option("--key", default="", help="Which key; without, the bucket without a key.")
async def reset_limit(session: CommandSession, name: str, key: str) -> None:
    """Let a budget forget what was spent in its period, or a rate what has begun."""
    async with session.client() as client:
        bucket = await client.limits.reset(name, key=key, by=session.by)
    session.answer(_bucket_document(bucket, []), lambda: _draw_bucket(bucket, []))


@limits_group.command("drain")
@click.argument("name")
@click.option("--key", default="", help="Which key; without, the bucket without a key.")
@click.option("--for", "seconds", required=True, metavar="TIME", help="30, 15m, 2h; 0 opens it.")
async def drain_limit(session: CommandSession, name: str, key: str, seconds: str) -> None:
    """Let nothing begin through a bucket for a while."""
    async with session.client() as client:
        bucket = await client.limits.drain(name, wait("--for", seconds), key=key, by=session.by)
    session.answer(_bucket_document(bucket, []), lambda: _draw_bucket(bucket, []))


@limits_group.command("retire")
@click.argument("name")
async def retire_limit(session: CommandSession, name: str) -> None:
    """Let a limit hold nothing up any more. A worker whose code defines it brings it back."""
    async with session.client() as client:
        _require_one(name, await client.limits.retire(name, by=session.by))
    session.answer({"limit": name, "retired": True}, lambda: [f"limit {name} is retired"])
