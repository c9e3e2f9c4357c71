"""Errors of forty causes, each raised by code of its own, as often as wanted, no two alike."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from types import CodeType

from holdfast.handlers.exceptions import raised
from holdfast.job.ends import Raised

CODE = """
import json, sqlite3, asyncio

class ServiceDown(Exception):
    pass

def load_order(v):
    raise LookupError(f"order {v.number} of '{v.name}' not found")

def load_invoice(v):
    raise LookupError(f"order {v.number} of '{v.name}' not found")

def charge(v, how):
    if how == "limit":
        raise ValueError(f"limit of {v.amount} EUR exceeded by {v.number}%")
    if how == "card":
        raise ValueError(f"card {v.hex} was refused at {v.time}")
    if how == "currency":
        raise ValueError(f"unknown currency in {v.path}")
    raise RuntimeError(f"card {v.hex} was refused at {v.time}")

def connect(v, how):
    if how == "refused":
        raise ConnectionError(f"cannot connect to {v.ip}:{v.number}: connection refused")
    if how == "reset":
        raise ConnectionError(f"cannot connect to {v.ip}:{v.number}: connection reset by peer")
    raise TimeoutError(f"no answer from {v.url} within {v.amount} s")

def parse(v, how):
    if how == "json":
        return json.loads("{" + " " * v.small + "]")
    if how == "int":
        return int(v.name)
    return {"a": 1}[v.name]

def wrapped(v, how):
    try:
        connect(v, how)
    except OSError as error:
        raise ServiceDown(f"service call {v.uuid} failed") from error

def beside(v, how):
    try:
        parse(v, how)
    except Exception:
        raise ServiceDown("cannot read the answer")

def down(v, n=0):
    return down(v, n + 1)

def ping(v, n=0):
    return pong(v, n + 1)

def pong(v, n=0):
    return ping(v, n + 1)

async def member(v, how):
    connect(v, how)

async def gather(v, how):
    async with asyncio.TaskGroup() as group:
        for _ in range(1 + v.small % 5):
            group.create_task(member(v, how))

def grouped(v, how):
    asyncio.run(gather(v, how))

def compiled(v, how):
    if how == "colon":
        compile("\\n" * v.small + "def f()\\n  pass", v.rules, "exec")
    compile("\\n" * v.small + "x = (", v.rules, "exec")

def queried(v, how):
    sqlite3.connect(":memory:").execute(how)

def handle(v, step, how=None):
    return globals()[step](v) if how is None else globals()[step](v, how)

def plain(v, how):
    texts = {
        "empty": "",
        "mail": f"cannot deliver to {v.mail}: mailbox full",
        "blocked": f"cannot deliver to {v.mail}: sender blocked",
        "russian": f"заказ {v.number} не найден в {v.path}",
        "chinese": f"用户{v.number}不存在",
        "chinese2": f"订单{v.number}已取消",
        "when": f"not before {v.http_time}",
        "object": f"{v.object} has no stock left",
        "huge": f"bad document '{v.name * v.small * 900}' in batch {v.number}",
        "json": f"unexpected answer: {{'id': {v.number}, 'lines': {v.numbers}}}",
        "plural": f"{v.amount} line{'s' if v.amount > 1 else ''} left over",
        "windows": f"the file {v.windows} is locked by another program",
        "token": f"token {v.hex}{v.hex} has ended",
    }
    raise Exception(texts[how])
"""

CAUSES: tuple[tuple[str, str, str | None], ...] = (
    ("shop.order", "load_order", None),
    ("shop.invoice", "load_order", None),  # the same place, called by another task
    ("shop.order", "load_invoice", None),  # the same words at another place
    ("shop.pay", "charge", "limit"),
    ("shop.pay", "charge", "card"),
    ("shop.pay", "charge", "currency"),
    ("shop.pay", "charge", "other kind"),
    ("shop.pay", "connect", "refused"),
    ("shop.pay", "connect", "reset"),
    ("shop.pay", "connect", "silent"),
    ("shop.read", "parse", "json"),
    ("shop.read", "parse", "int"),
    ("shop.read", "parse", "key"),
    ("shop.call", "wrapped", "refused"),
    ("shop.call", "wrapped", "reset"),
    ("shop.call", "wrapped", "silent"),
    ("shop.call", "beside", "json"),
    ("shop.call", "beside", "int"),
    ("shop.deep", "down", None),
    ("shop.deep", "ping", None),
    ("shop.many", "grouped", "refused"),
    ("shop.many", "grouped", "reset"),
    ("shop.many", "grouped", "silent"),
    ("shop.code", "compiled", "colon"),
    ("shop.code", "compiled", "paren"),
    ("shop.sql", "queried", "select * from nowhere"),
    ("shop.sql", "queried", "no sql at all"),
    *(
        ("shop.say", "plain", how)
        for how in (
            "empty",
            "mail",
            "blocked",
            "russian",
            "chinese",
            "chinese2",
            "when",
            "object",
            "huge",
            "json",
            "plural",
            "windows",
            "token",
        )
    ),
)


class Values:
    """What differs from job to job."""

    def __init__(self, chance: random.Random) -> None:
        self.number = chance.randrange(1, 10**7)
        self.amount = chance.randrange(1, 50)
        self.small = chance.randrange(1, 20)
        self.numbers = [chance.randrange(100) for _ in range(self.small)]
        self.name = "".join(chance.choices("abcdef ghij", k=1 + self.small))
        self.uuid = uuid.UUID(int=chance.getrandbits(128))
        self.hex = f"{chance.getrandbits(64):016x}"
        self.ip = ".".join(str(chance.randrange(256)) for _ in range(4))
        self.url = f"https://{self.name.strip() or 'x'}.example.org/v{self.small}?q={self.hex}"
        self.url = self.url.replace(" ", "-")
        self.mail = f"{self.name.replace(' ', '.')}@example.org"
        self.path = f"/srv/{self.hex}/data/file{self.number}.xml"
        self.rules = f"/srv/{self.hex}/rules.py"
        self.windows = f"C:\\Users\\u{self.number}\\file.xml"
        self.object = f"<Shelf object at 0x{chance.getrandbits(40):x}>"
        self.time = f"2026-11-{1 + self.small:02}T10:{self.amount:02}:00.{self.number}Z"
        day = chance.choice(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
        month = chance.choice(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug"))
        self.http_time = f"{day}, {1 + self.small:02} {month} 2026 08:{self.amount:02}:00 GMT"


def release(chance: random.Random) -> CodeType:
    """The program as one of many releases has it: in a folder of its own, other lines above it."""
    return compile("\n" * chance.randrange(40) + CODE, f"/srv/r{chance.random()}/shop.py", "exec")


def errors(seed: int, times: int) -> Iterator[tuple[int, str, Raised]]:
    """The number of the cause, the task, and what its job raised."""
    chance = random.Random(seed)
    for _ in range(times):
        program: dict[str, object] = {}
        exec(release(chance), program)
        for number, (task, step, how) in enumerate(CAUSES):
            yield number, task, _raised(program, Values(chance), step, how)


def _raised(program: dict[str, object], values: Values, step: str, how: str | None) -> Raised:
    handle = program["handle"]
    assert callable(handle)
    try:
        handle(values, step, how)
    except Exception as error:  # noqa: BLE001 - any of the forty kinds
        return raised(error)
    raise AssertionError(f"{step} {how} raised nothing")
