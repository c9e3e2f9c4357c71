"""Signatures of a program: tokens of people who may answer, and proofs of their votes.

A token is `hf1.<key id>.<job>.<wait>.<person>.<mac>`: HMAC-SHA256 over what it says. Whoever has it
may answer as that person, and nobody can make one without a key. So a store has no tokens in it,
and a copy of the store lets nobody answer.

The vote itself is kept in the store, with a proof: another HMAC, over the answer too. Who can write
to the store and has no key cannot add a vote or change one, because the worker counts votes whose
proof holds. A proof is no token: each text begins with its purpose.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from secrets import token_bytes

import msgspec

from holdfast.encryption.keyring import Keyring
from holdfast.job.vote import Ballot, Invited, Vote, read_ballot

VERSION = "hf1"
LONGEST_TOKEN = 2_000
TOKEN = "holdfast approval token 1"
VOTE = "holdfast approval vote 1"
MAC_BYTES = 32
_NOBODY = Invited("", "", "")


class Signer:
    """Signs by the first key of a ring, and verifies by all of them. Threads may share it."""

    __slots__ = ("_decoy", "_first", "_macs")

    def __init__(self, ring: Keyring) -> None:
        self._first = ring.first
        self._macs = {kid: hmac.new(ring.bytes_of(kid), digestmod="sha256") for kid in ring}
        self._decoy = hmac.new(token_bytes(MAC_BYTES), digestmod="sha256")

    @property
    def kid(self) -> str:
        """The id of the key that signs."""
        return self._first

    def knows(self, kid: str) -> bool:
        return kid in self._macs

    def token(self, asked: Invited) -> str:
        """What lets this person answer."""
        mac = self._mac(self._first, TOKEN, asked.job, asked.wait, asked.who)
        wait, who = _written(asked.wait.encode()), _written(asked.who.encode())
        return ".".join((VERSION, self._first, asked.job, wait, who, _written(mac)))

    def read(self, token: str) -> Invited | None:
        """Who may answer what; None if no key of the ring has signed that. A token that is no token
        and one of an unknown key cost as much time as one with a wrong signature."""
        version, kid, asked, given = _parts(token)
        expected = self._mac(kid, TOKEN, asked.job, asked.wait, asked.who)
        is_signed = hmac.compare_digest(expected, given)
        return asked if is_signed and kid in self._macs and version == VERSION else None

    def ballot(self, asked: Invited, vote: Vote, kid: str | None = None) -> str:
        """The vote with its proof by this key of the ring, or by the first, as JSON."""
        kid = kid or self._first
        proof = _written(self._mac(kid, *_of_vote(asked, vote)))
        return msgspec.json.encode(Ballot(vote, kid, proof)).decode()

    def vote(self, asked: Invited, text: str) -> Vote | None:
        """The vote of this person, if its proof holds."""
        if (found := read_ballot(text)) is None:
            return None
        expected = self._mac(found.kid, *_of_vote(asked, found.vote))
        holds = hmac.compare_digest(expected, _read(found.proof, MAC_BYTES))
        whole = holds and found.kid in self._macs and found.vote.who == asked.who
        return found.vote if whole else None

    def _mac(self, kid: str, *parts: str) -> bytes:
        """An id that the ring does not have is signed by a key that nobody has."""
        mac = self._macs.get(kid, self._decoy).copy()
        for part in (kid, *parts):
            text = part.encode("utf-8", "replace")
            mac.update(len(text).to_bytes(4, "big") + text)
        return mac.digest()


def key_of_vote(signal: str) -> str:
    """The key of the signal that carries a vote: each answer is kept once. A name may be longer
    than a key."""
    return f"vote {sha256(signal.encode()).hexdigest()}"


def _of_vote(asked: Invited, vote: Vote) -> tuple[str, ...]:
    return VOTE, asked.job, asked.wait, asked.who, msgspec.json.encode(vote).decode()


def _parts(token: str) -> tuple[str, str, Invited, bytes]:
    """Version, key id, who is asked, and signature; of what is no token, something that nobody has
    signed. The id of a key may have dots in it."""
    parts = token.split(".") if len(token) <= LONGEST_TOKEN else []
    if len(parts) < 6:
        return "", "", _NOBODY, bytes(MAC_BYTES)
    version, *kid, job, wait, who, mac = parts
    asked = Invited(job, *(_read(one).decode("utf-8", "replace") for one in (wait, who)))
    return version, ".".join(kid), asked, _read(mac, MAC_BYTES)


def _written(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


def _read(text: str, size: int | None = None) -> bytes:
    """The bytes of a text of a token; zeros if there are not `size` of them."""
    try:
        found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        found = b""
    return found if size is None or len(found) == size else bytes(size)
