"""One text, encrypted for its owner: AES-256-GCM with a key of the owner's own.

The owner is a job, or whatever else the value belongs to. Its key is HMAC-SHA256 of the ring's key
and the owner. One key for all jobs would reach the number of random nonces that is still safe
within days of a busy system; a key of its own encrypts a few texts only. The ciphertext is bound to
owner, task and field: put anywhere else, it does not open.
"""

from __future__ import annotations

import hmac
from os import urandom

from holdfast.encryption.keyring import Keyring
from holdfast.errors import HoldfastError, RowRefused, Undecipherable
from holdfast.job.sealed import VERSION, Envelope, read_envelope, why_closed, write_envelope

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError as missing:
    raise HoldfastError(
        "encryption needs its library: pip install 'holdfast[encryption]'"
    ) from missing

NONCE_BYTES = 12


class Sealing:
    """Encrypts and opens with the keys of one ring. Programs and threads may share it."""

    def __init__(self, ring: Keyring) -> None:
        self.first = ring.first
        self._last = ring.last
        self._macs = {kid: hmac.new(ring.bytes_of(kid), digestmod="sha256") for kid in ring}

    def __contains__(self, kid: str) -> bool:
        return kid in self._macs

    def of(self, owner: str) -> Owner:
        """What belongs to this owner, such as `job 0192…`."""
        return Owner(self, owner)

    def unique_key(self, key: str) -> str:
        """What stands for a unique key in the store: the same for the same key, and it tells
        nothing of it. `hmac:` and the id of the key come before."""
        return f"hmac:{self._last}:{self.digest(self._last, f'unique {key}').hex()}"

    def digest(self, kid: str, text: str) -> bytes:
        mac = self._macs[kid].copy()
        mac.update(text.encode())
        return mac.digest()


class Owner:
    """Encrypts and opens the texts of one owner. Its key is made once for all of them."""

    __slots__ = ("_ciphers", "_name", "_sealing")

    def __init__(self, sealing: Sealing, name: str) -> None:
        self._sealing = sealing
        self._name = name
        self._ciphers: dict[str, AESGCM] = {}

    def seal(
        self,
        field: str,
        text: str,
        task: str = "",
        *,
        held: bool = False,
        schedule: str | None = None,
        steady: bool = False,
    ) -> str:
        """The text, encrypted by the first key of the ring. With `steady` the same text is always
        encrypted to the same: its nonce is made of the text, and not by chance."""
        kid, bound = self._sealing.first, self._bound(field, task)
        try:
            plain = text.encode()
        except UnicodeEncodeError as error:
            problem = f"the {field} of {self._name} is no text that UTF-8 can carry"
            raise RowRefused(f"the store cannot take a value: {problem}") from error
        nonce = self._nonce_of(bound, text) if steady else urandom(NONCE_BYTES)
        hidden = self._cipher(kid).encrypt(nonce, plain, bound)
        return write_envelope(Envelope(VERSION, kid, nonce, hidden, held, schedule))

    def open(self, field: str, text: str, task: str = "") -> str:
        """What was encrypted. Raises `NoKey` if the ring lacks its key, and `Undecipherable` if
        the text was altered, or was encrypted for another owner, task or field."""
        envelope = read_envelope(text)
        kid = envelope.kid
        if envelope.version != VERSION or kid not in self._sealing:
            raise why_closed(envelope)
        try:
            bound = self._bound(field, task)
            return self._cipher(kid).decrypt(envelope.nonce, envelope.text, bound).decode()
        except (InvalidTag, ValueError):
            raise Undecipherable(kid) from None

    def _nonce_of(self, bound: bytes, text: str) -> bytes:
        made_of = f"nonce {bound.decode()}\0{text}"
        return self._sealing.digest(self._sealing.first, made_of)[:NONCE_BYTES]

    def _bound(self, field: str, task: str) -> bytes:
        return f"{self._name}\0{task}\0{field}".encode()

    def _cipher(self, kid: str) -> AESGCM:
        found = self._ciphers.get(kid)
        if found is None:
            found = self._ciphers[kid] = AESGCM(self._sealing.digest(kid, self._name))
        return found
