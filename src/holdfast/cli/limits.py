"""`holdfast limits list|show|set|weigh|top-up|reset|drain|retire`."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.filters import wait
from holdfast.cli.limits_view import (
    act_document,
    bucket_document,
    draw_bucket,
    draw_limits,
    draw_shown,
    limit_document,
)
from holdfast.cli.output import complain
from holdfast.cli.program import limits_group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.client import Client
from holdfast.job.passing import QUEUE_LIMIT
from holdfast.limits.model import BucketInfo

BUCKETS_LOOKED_AT = 20_000
"""Of how many buckets of each limit a list sums up what they count: a second's work."""
BUCKETS_PAGE = 1_000
HOLDERS_SHOWN = 20
ACTS_SHOWN = 10
KEYS_NAMED = 5
OF_QUEUES = (
    f"{QUEUE_LIMIT!r} is no limit, but counts the running jobs of each queue: "
    "'holdfast queues tune QUEUE --max-running N' sets its total, "
    f"and 'holdfast limits show {QUEUE_LIMIT} --key QUEUE' shows it"
)


@limits_group.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
async def list_limits(session: CommandSession, names: tuple[str, ...]) -> None:
    """List limits, with what they count and hold up: all, or those named."""
    _refuse_totals(*names)
    async with session.client() as client:
        limits = await client.limits.all(*names)
        for name in names:
            _require_one(name, any(one.name == name for one in limits))
        buckets = {one.name: await _some_buckets(client, one.name) for one in limits}
    documents = [limit_document(one, buckets[one.name]) for one in limits]
    session.answer({"limits": documents}, lambda: draw_limits(limits, buckets))


async def _some_buckets(client: Client, limit: str) -> list[BucketInfo]:
    found: list[BucketInfo] = []
    while len(found) < BUCKETS_LOOKED_AT:
        behind = found[-1].name if found else None
        page = await client.limits.buckets(limit, page=BUCKETS_PAGE, after=behind)
        found += page
        if len(page) < BUCKETS_PAGE:
            break
    return found


def _refuse_totals(*names: str) -> None:
    """Totals of queues are counted as limits are, and no command on limits changes them."""
    if QUEUE_LIMIT in names:
        raise UsageProblem(OF_QUEUES)


def _require_one(name: str, found: bool) -> None:
    if not found:
        raise UsageProblem(f"there is no limit {name!r}: see 'holdfast limits list'")


@limits_group.command("show")
@click.argument("name")
@click.option("--key", help="Which key; without, the bucket without a key.")
async def show_limit(session: CommandSession, name: str, key: str | None) -> None:
    """Show one bucket: what it counts, who holds it, when it opens, and who changed it."""
    if not key:
        _refuse_totals(name)
    async with session.client() as client:
        limits, which = client.limits, key or ""
        bucket = await limits.get(name, which)
        holders = await limits.holders(name, which, page=HOLDERS_SHOWN)
        stuck = await limits.waiters(name, which, page=1, never=True) if bucket.stuck else []
        acts = await limits.history(name, key, page=ACTS_SHOWN)
        workers = {one.id: one.name for one in await client.workers.all()} if holders else {}
        await _warn_of_keys(client, name, which)
    document = bucket_document(bucket, holders) | {"history": list(map(act_document, acts))}
    session.answer(document, lambda: draw_shown(bucket, holders, stuck, acts, workers))


@limits_group.command("set")
@click.argument("name")
@click.option("--key", help="Only this key.")
@click.option("--most", type=click.IntRange(min=0), help="How many at once, or per window.")
@click.option("--per", metavar="TIME", help="Of a rate: the window.")
@click.option("--burst", metavar="N|none", help="Of a rate: how many may be saved.")
@click.option(
    "--hard", type=click.IntRange(min=0), help="Of a budget: how much; soft stays its part."
)
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
    _refuse_totals(name)
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
            bucket = await client.limits.set(name, key=key, create=create, by=session.by, **changes)
    _answer(session, bucket)


def _answer(session: CommandSession, bucket: BucketInfo) -> None:
    """Answer with a bucket as it is after the change."""
    session.answer(bucket_document(bucket, []), lambda: draw_bucket(bucket))


async def _warn_of_keys(client: Client, name: str, key: str) -> None:
    """Who leaves out the key of a limit that jobs pass by key changes a bucket that holds none of
    them up."""
    if key:
        return
    buckets = await client.limits.buckets(name, page=KEYS_NAMED + 2)
    keys = [one.key for one in buckets if one.key]
    if keys:
        named = ", ".join(map(repr, keys[:KEYS_NAMED])) + (" …" if len(keys) > KEYS_NAMED else "")
        complain(
            f"jobs pass limit {name!r} by key ({named}), and this is its bucket without a key: "
            "it holds none of those jobs up. Name a key with --key"
        )


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
    _refuse_totals(name)
    async with session.client() as client:
        bucket = await client.limits.top_up(name, amount, key=key, by=session.by)
        await _warn_of_keys(client, name, key)
    _answer(session, bucket)


@limits_group.command("reset")
@click.argument("name")
@click.option("--key", default="", help="Which key; without, the bucket without a key.")
async def reset_limit(session: CommandSession, name: str, key: str) -> None:
    """Let a budget forget what was spent in its period, or a rate what has begun."""
    _refuse_totals(name)
    async with session.client() as client:
        bucket = await client.limits.reset(name, key=key, by=session.by)
        await _warn_of_keys(client, name, key)
    _answer(session, bucket)


@limits_group.command("drain")
@click.argument("name")
@click.option("--key", default="", help="Which key; without, the bucket without a key.")
@click.option("--for", "seconds", required=True, metavar="TIME", help="30, 15m, 2h; 0 opens it.")
async def drain_limit(session: CommandSession, name: str, key: str, seconds: str) -> None:
    """Let nothing begin through a bucket for a while."""
    _refuse_totals(name)
    async with session.client() as client:
        bucket = await client.limits.drain(name, wait("--for", seconds), key=key, by=session.by)
        await _warn_of_keys(client, name, key)
    _answer(session, bucket)


@limits_group.command("retire")
@click.argument("name")
async def retire_limit(session: CommandSession, name: str) -> None:
    """Let a limit hold nothing up any more. A worker whose code defines it brings it back."""
    _refuse_totals(name)
    async with session.client() as client:
        _require_one(name, bool(await client.limits.all(name)))
        await client.limits.retire(name, by=session.by)
    session.answer({"limit": name, "retired": True}, lambda: [f"limit {name} is retired"])
