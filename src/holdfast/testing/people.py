"""People whom a job asks, in tests: an app without keys gets some, and tokens are made at hand."""

from __future__ import annotations

from secrets import token_bytes

import msgspec

from holdfast.config import Settings
from holdfast.encryption.keyring import KEY_BYTES, Keyring
from holdfast.encryption.signing import Signer
from holdfast.errors import BadOption
from holdfast.job.vote import Invited


def with_signing_keys(settings: Settings) -> Settings:
    """The same, with keys that nobody has if it has none."""
    if settings.signing_keys is not None:
        return settings
    keys = Keyring({"test": token_bytes(KEY_BYTES)})
    return msgspec.structs.replace(settings, signing_keys=keys)


def token_of(settings: Settings, invited: Invited) -> str:
    """What this person was sent."""
    if settings.signing_keys is None:
        raise BadOption("signing_keys", "set", None)
    return Signer(settings.signing_keys).token(invited)
