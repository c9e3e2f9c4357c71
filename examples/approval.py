"""A release that three people are asked about: two of them must say yes.

The job gives its slot back while it waits. Each person has a token of their own; whoever has it
answers as that person, here by a function that stands for a web page.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast import AnswerRefused, App, Context, Keyring

DATABASE = Path("approval.db")
KEYS = Keyring({"k1": b"a secret of exactly thirty-two b"})  # in earnest: HOLDFAST_SIGNING_KEYS
app = App(f"sqlite:///{DATABASE}", signing_keys=KEYS)
mailbox: dict[str, str] = {}
sent = asyncio.Event()


async def send(tokens: dict[str, str]) -> None:
    mailbox.update(tokens)
    sent.set()


@app.task()
async def release(ctx: Context, version: str) -> str:
    asked = ctx.invite("leads", of=["ann", "bob", "cyd"])
    await ctx.step("mail", send, asked.tokens)
    vote = await asked.quorum(2, timeout=3_600)
    said = ", ".join(f"{one.who} {'yes' if one.approve else 'no'}" for one in vote.votes)
    return f"{version} {'is released' if vote.granted else 'stays here'} ({said})"


async def answer(who: str, approve: bool) -> None:
    try:
        await app.client.answer(mailbox[who], approve)
    except AnswerRefused as refused:
        print(f"{who}: {refused}")
    else:
        print(f"{who}: thank you")


async def main() -> None:
    async with app:
        job = await release.enqueue("1.4")
        async with app.worker({"default": 4}):
            await sent.wait()
            for who, approve in (("bob", False), ("bob", True), ("ann", True), ("cyd", True)):
                await answer(who, approve)
            print(await job.result(timeout=30))
            await answer("cyd", False)


if __name__ == "__main__":
    for leftover in Path().glob(f"{DATABASE}*"):
        leftover.unlink()
    asyncio.run(main())
