"""A text that a store holds encrypted, and how it is shown to whoever cannot open it.

Whatever is encrypted is the JSON text `{"$enc":1,"kid":…,"n":…,"c":…}`: the id of the key, the
nonce and the ciphertext. So a store needs to know nothing of it. This module knows the form alone.
`holdfast.encryption` has the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import HoldfastError, NoKey, Undecipherable, Unreadable

if TYPE_CHECKING:
    from holdfast.job.record import ErrorEntry, Job, Progress

SHOWN = "encrypted (key "
"""How the words begin that people see instead."""
MARK = '{"$enc":'
"""How every encrypted text begins. No JSON text of a user does: see `told_apart`."""


class Envelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An encrypted text, taken apart.

    `held` says that the value belongs to whichever job holds the unique key, not to one job alone:
    a call that debounces gives its arguments to the holder. `schedule` is the one header that stays
    readable, since stores find the jobs of a schedule by it.
    """

    version: int = msgspec.field(name="$enc")
    kid: str
    nonce: bytes = msgspec.field(name="n", default=b"")
    text: bytes = msgspec.field(name="c", default=b"")
    held: bool = msgspec.field(name="u", default=False)
    schedule: str | None = msgspec.field(name="holdfast-schedule", default=None)


HELD = '"u":true}'
"""How an encrypted text ends that belongs to whichever job holds the unique key."""
VERSION = 1
ALTERED = 0
"""The version of an envelope that a program puts in the place of one that did not open."""

_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(Envelope).decode


def write_envelope(envelope: Envelope) -> str:
    return _write(envelope).decode()


def read_envelope(text: str) -> Envelope:
    """What an encrypted text says. One that was damaged has no key that anybody could name."""
    try:
        return _read(text)
    except (msgspec.MsgspecError, ValueError):
        return Envelope(ALTERED, "?")


def altered(kid: str) -> str:
    """What stands for a text that this program has the key of and could not open."""
    return write_envelope(Envelope(ALTERED, kid))


def is_sealed(text: str | None) -> bool:
    return text is not None and text.startswith(MARK)


def told_apart(text: str) -> str:
    """A JSON text of a user, which must not be taken for an encrypted one: a function may return
    an object whose first name is `$enc`. A blank, which JSON allows there, tells them apart."""
    return f"{{ {text[1:]}" if text.startswith(MARK) else text


def require_open(text: str) -> None:
    """Raise an error if the text is still encrypted: nobody may take it for a value."""
    if text.startswith(MARK):
        raise why_closed(read_envelope(text))


def why_closed(envelope: Envelope) -> HoldfastError:
    """The error for whoever needs the value of an envelope that is still closed."""
    match envelope.version:
        case 1:
            return NoKey(envelope.kid)
        case 0:
            return Undecipherable(envelope.kid)
        case later:
            return Unreadable("encryption", f"its form is {later}")


def shown(text: str) -> str:
    """The text, or what people see of one that is still encrypted. Words may come before it.

    >>> shown('ValueError: {"$enc":1,"kid":"2026-11","n":"","c":""}')
    'ValueError: encrypted (key 2026-11)'
    """
    before, mark, rest = text.partition(MARK)
    if not mark:
        return text
    envelope = read_envelope(mark + rest)
    if before and envelope.version == ALTERED:
        return text  # words of somebody else that happen to look alike
    return f"{before}{SHOWN}{envelope.kid}{', altered' * (envelope.version == ALTERED)})"


def shown_json(text: str | None) -> str | None:
    """The same for a JSON text: what people see is a JSON text too."""
    if text is None or not text.startswith(MARK):
        return text
    return msgspec.json.encode(shown(text)).decode()


def shown_job(job: Job) -> Job:
    """The job with "encrypted (key …)" for everything that this program could not open."""
    if not has_sealed(job):
        return job
    return msgspec.structs.replace(
        job,
        args_json=shown_json(job.args_json) or "",
        headers_json=shown_json(job.headers_json),
        result_json=shown_json(job.result_json),
        reason=None if job.reason is None else shown(job.reason),
        progress=None if job.progress is None else _shown_progress(job.progress),
        errors=tuple(map(shown_error, job.errors)),
    )


def has_sealed(job: Job) -> bool:
    """Whether anything of the job is encrypted."""
    return any(is_sealed(text) for text in texts_of(job).values())


def texts_of(job: Job) -> dict[str, str | None]:
    """The texts of a job that may be encrypted, by what they are."""
    texts = {
        "args": job.args_json,
        "headers": job.headers_json,
        "result": job.result_json,
        "reason": job.reason,
    }
    if job.progress is not None:
        texts |= {"message": job.progress.message, "checkpoint": job.progress.checkpoint_json}
    for number, error in enumerate(job.errors):
        texts |= {f"error {number}": error.message, f"traceback {number}": error.traceback}
    return texts


def _shown_progress(progress: Progress) -> Progress:
    message = None if progress.message is None else shown(progress.message)
    saved = shown_json(progress.checkpoint_json)
    return msgspec.structs.replace(progress, message=message, checkpoint_json=saved)


def shown_error(error: ErrorEntry) -> ErrorEntry:
    """The error with "encrypted (key …)" for a message and a traceback that did not open."""
    traceback = None if error.traceback is None else shown(error.traceback)
    return msgspec.structs.replace(error, message=shown(error.message), traceback=traceback)
