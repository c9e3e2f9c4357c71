"""`holdfast limits list|show|set|drain|retire`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.filters import wait
from holdfast.cli.output import duration_text, make_table, make_text
from holdfast.cli.program import limits_group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.limits.model import BucketInfo, LimitInfo, shown
from holdfast.store.contract.limits import BucketHolder

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BUCKETS_SHOWN = 1_000
HOLDERS_SHOWN = 20


@limits_group.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
async def list_limits(session: CommandSession, names: tuple[str, ...]) -> None:
    """List limits, with what they count and hold up: all, or those named."""
    async with session.client() as client:
        limits = await client.limits.all(*names)
        buckets = {
            one.name: await client.limits.buckets(one.name, page=BUCKETS_SHOWN) for one in limits
        }
    documents = [_limit_document(one, buckets[one.name]) for one in limits]
    session.answer({"limits": documents}, lambda: _draw_limits(limits, buckets))


def _limit_document(limit: LimitInfo, buckets: list[BucketInfo]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(limit)
    counted = {"in_use": _in_use(buckets), "waiting": _waiting(buckets)}
    return document | {"settings": shown(limit.settings)} | counted


def _in_use(buckets: list[BucketInfo]) -> int:
    return sum(one.in_use for one in buckets)


def _waiting(buckets: list[BucketInfo]) -> int:
    return sum(one.waiting for one in buckets)


def _draw_limits(
    limits: list[LimitInfo], buckets: dict[str, list[BucketInfo]]
) -> Iterator[RenderableType]:
    if not limits:
        yield "no limits yet"
        return
    table = make_table("=limit", "kind", ">most", ">keys", ">running", ">lines waiting", "")
    for one in limits:
        some, settings = buckets[one.name], shown(one.settings)
        counts = (f"{one.buckets:,}", f"{_in_use(some):,}", f"{_waiting(some):,}")
        table.add_row(one.name, settings["kind"], f"{one.settings.most:,}", *counts, _standing(one))
    yield table


def _standing(limit: LimitInfo) -> Text:
    if limit.retired:
        return make_text("retired", "yellow")
    return make_text("set by an operator" if limit.edited else "as declared", "dim")


@limits_group.command("show")
@click.argument("name")
@click.option("--key", default="", help="Which key; without, the bucket without a key.")
async def show_limit(session: CommandSession, name: str, key: str) -> None:
    """Show one bucket: what it counts, who holds it, and when it opens."""
    async with session.client() as client:
        bucket = await client.limits.get(name, key)
        holders = await client.limits.holders(name, key, page=HOLDERS_SHOWN)
    session.answer(_bucket_document(bucket, holders), lambda: _draw_bucket(bucket, holders))


def _bucket_document(bucket: BucketInfo, holders: list[BucketHolder]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(bucket)
    document["settings"] = None if bucket.settings is None else shown(bucket.settings)
    return document | {"key": bucket.key, "limit": bucket.limit, "holders": holders}


def _draw_bucket(bucket: BucketInfo, holders: list[BucketHolder]) -> Iterator[RenderableType]:
    named = f"limit {bucket.limit}" + (f", key {bucket.key}" if bucket.key else "")
    if bucket.settings is None:
        yield make_text(f"{named}: not defined, so no job of it begins", "red")
        return
    own = " (set for this key)" if bucket.override is not None else ""
    yield f"{named}: {bucket.in_use:,} of {bucket.settings.most:,} run{own}"
    if bucket.retired:
        yield make_text("  retired: it holds nothing up", "yellow")
    if bucket.drained_for is not None:
        yield make_text(f"  shut for another {duration_text(bucket.drained_for)}", "yellow")
    if bucket.waiting:
        yield f"  {bucket.waiting:,} lines wait"
    if holders:
        table = make_table("=job", "task", "worker", "since")
        for one in holders:
            since = f"{one.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
            table.add_row(one.job_id, one.task, one.worker_id, since)
        yield table


@limits_group.command("set")
@click.argument("name")
@click.option("--key", help="Only this key.")
@click.option("--most", type=click.IntRange(min=0), help="How many jobs may run at once.")
@click.option("--inherit", is_flag=True, help="Let the key have the settings of its limit again.")
async def set_limit(
    session: CommandSession, name: str, key: str | None, most: int | None, inherit: bool
) -> None:
    """Change a limit, or one key of it. It counts at once; what runs goes on."""
    if (most is None) == (not inherit):
        raise UsageProblem("give --most, or with --key --inherit")
    if inherit and key is None:
        raise UsageProblem("--inherit needs --key")
    async with session.client() as client:
        if most is None:
            bucket = await client.limits.inherit(name, key or "", by=session.by)
        else:
            bucket = await client.limits.set(name, most=most, key=key, by=session.by)
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
        retired = await client.limits.retire(name, by=session.by)
    said = f"limit {name} is retired" if retired else f"there is no limit {name}"
    session.answer({"limit": name, "retired": retired}, lambda: [said])
