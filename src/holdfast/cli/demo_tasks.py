"""The tasks of `holdfast demo`: a small shop that sends, resizes, charges and reports.

The tasks have a module of their own because a child process imports them by name.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import Counter
from datetime import datetime
from secrets import token_bytes

from holdfast.app import App
from holdfast.context import Context
from holdfast.declaring.tasks import Tasks
from holdfast.encryption.keyring import KEY_BYTES, Keyring
from holdfast.job.ends import Snooze
from holdfast.job.retry import Retry
from holdfast.limits.model import Budget, Concurrency

app = App("sqlite://", signing_keys=Keyring({"demo": token_bytes(KEY_BYTES)}))
shop = Tasks(prefix="shop.")
app.include(shop)

MAIL, MEDIA, OFFICE = "mail", "media", "office"
QUEUES = {MAIL: 20, MEDIA: 6, OFFICE: 6}
CLOCK = "clock"
"""The queue of the schedule's jobs. They are not counted with the others, because their number
depends on how long the demo takes."""
STUDIO = "studio"
"""The queue of the flow's nodes, which are counted as a flow."""
PICTURES = 8
SERVED = {**QUEUES, CLOCK: 2, STUDIO: 10}
SOON = Retry.constant(max_attempts=3, base=0.8)


@shop.task(queue=MAIL)
async def welcome(to: str) -> str:
    """A coroutine: twenty of them wait side by side."""
    await asyncio.sleep(random.uniform(0.05, 0.25))
    return f"sent to {to}"


@shop.task(queue=MEDIA)
def thumbnail(picture: str, width: int) -> str:
    """A plain function: runs in a thread."""
    time.sleep(0.15)
    return f"{picture}@{width}"


@shop.task(queue=MEDIA, process=True)
def fingerprint(rounds: int) -> str:
    """Burns CPU: runs in a child process, so the others do not wait."""
    digest = b"holdfast"
    for _ in range(rounds):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


@shop.task(queue=OFFICE, retry=SOON)
async def charge(ctx: Context, order: int) -> str:
    """Fails twice, then works."""
    if ctx.attempt < 3:
        raise ConnectionError(f"bank did not answer for order {order}")
    return "paid"


@shop.task(queue=OFFICE, retry=SOON)
async def import_feed(url: str) -> None:
    """Never works: fails for good after three attempts."""
    raise ValueError(f"{url} is not a feed")


@shop.task(queue=OFFICE)
async def report(ctx: Context, pages: int, seconds: float) -> int:
    """Slow, and reports its progress."""
    for page in range(1, pages + 1):
        await asyncio.sleep(seconds / pages)
        await ctx.progress(page / pages, f"page {page} of {pages}")
    return pages


@shop.task(queue=MAIL)
async def reminder(to: str) -> str:
    """Enqueued now, due later."""
    return f"reminded {to}"


@shop.task(queue=OFFICE)
async def await_partner(ctx: Context, tries: int, pause: float) -> int:
    """Its partner is not ready: it snoozes and tries again, without spending an attempt."""
    seen = (ctx.checkpoint or 0) + 1
    if seen < tries:
        await ctx.progress(checkpoint=seen)
        raise Snooze(pause)
    return seen


@shop.task(queue=OFFICE)
async def export(customer: str) -> None:
    """Would take a minute: cancelled long before."""
    await asyncio.sleep(60)


LEADS = ("ann", "bob", "cyd")
mailbox: dict[str, str] = {}
"""The tokens that people were sent."""


@shop.task(queue=OFFICE)
async def release(ctx: Context, version: str) -> str:
    """Asks three people, and waits without a slot until two of them have said yes."""
    asked = ctx.invite("release", of=LEADS)
    await ctx.step("mail", mailbox.update, asked.tokens)
    vote = await asked.quorum(2, timeout=3_600)
    names = " and ".join(one.who for one in vote.votes if one.approve)
    return f"{version} is released by {names}" if vote.granted else f"{version} is not released"


@shop.task(queue=OFFICE)
async def answer(ctx: Context, question: str) -> str:
    """Answers word by word, as a language model would; whoever follows its stream sees each."""
    async with ctx.stream("tokens") as out:
        for word in f"{question} Frames come in order, and each comes once.".split():
            await asyncio.sleep(0.03)
            await out.write(f"{word} ")
    return out.text


tenant = shop.limit("tenant", Concurrency(1))
tokens = shop.limit("tokens", Budget(1_000, every="day"))
asking: Counter[str] = Counter()
most_asking: Counter[str] = Counter()


@shop.task(queue=OFFICE, limits=[tenant.by("who"), tokens.by("who", cost="most")])
async def ask_model(ctx: Context, who: str, most: int) -> int:
    """One at a time for each tenant; reserves its tokens, and settles with what it used."""
    asking[who] += 1
    most_asking[who] = max(most_asking[who], asking[who])
    await asyncio.sleep(0.05)
    asking[who] -= 1
    await ctx.spent(tokens, most // 4)
    return most // 4


@shop.task(queue=STUDIO)
async def list_pictures(album: str) -> list[str]:
    """The first node of a flow: what it returns becomes a node for each element."""
    await asyncio.sleep(0.1)
    return [f"{album}-{number}.jpg" for number in range(PICTURES)]


@shop.task(queue=STUDIO)
async def retouch(picture: str) -> str:
    """Fan-out: one node for each picture."""
    await asyncio.sleep(random.uniform(0.1, 0.4))
    return f"{picture}, retouched"


@shop.task(queue=STUDIO)
async def write_caption(album: str, seconds: float) -> str:
    """A race: two of them start, the second is cancelled when the first has come."""
    await asyncio.sleep(seconds)
    return f"all of {album}"


@shop.task(queue=STUDIO)
async def publish(caption: str, pictures: list[str]) -> str:
    """The join: it begins when every picture and one caption are there."""
    return f"{caption}: {len(pictures)} pictures"


@shop.schedule(every=1, plan_as="plan")
@shop.task(queue=CLOCK)
async def stocktaking(plan: datetime) -> dict[str, int]:
    """On schedule: every second, each plan once, however many workers run."""
    return {"rows_affected": plan.second}
