"""Valkey or Redis for tests: what every server offers, and the one that the environment names."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from itertools import groupby
from urllib.parse import parse_qs, urlsplit

from holdfast.testing.servers.resp import Answer, say
from holdfast.testing.servers.server import ServerFailed, ServerForTests

VALKEY_URL_VARIABLE = "HOLDFAST_TEST_VALKEY_URL"


class ValkeyServer(ServerForTests):
    """A server, or a cluster of them, that hands out empty namespaces."""

    url: str

    def __init__(self) -> None:
        self._namespaces: set[str] = set()

    @property
    @abstractmethod
    def addresses(self) -> list[tuple[str, int]]:
        """Every node that holds keys."""

    def new_namespace(self, **options: object) -> str:
        """The URL of a namespace without a key; `options` go into its query."""
        name = f"t{secrets.token_hex(5)}"
        self._namespaces.add(name)
        given = "".join(f"&{key}={value}" for key, value in options.items())
        return f"{self.url}{'&' if '?' in self.url else '?'}namespace={name}{given}"

    def keys(self, url: str) -> list[str]:
        """Every key of the namespace of this URL, on every node."""
        pattern = f"{{{_namespace_of(url)}[:}}]*"
        return sorted(key for address in self.addresses for key in self._scan(address, pattern))

    def clear(self, url: str) -> None:
        """Remove every key of a namespace."""
        for address in self.addresses:
            keys = self._scan(address, f"{{{_namespace_of(url)}[:}}]*")
            for _, of_slot in groupby(sorted(keys), lambda key: key.partition("}")[0]):
                self.say("DEL", *of_slot, address=address)

    def say(self, *words: str | int, address: tuple[str, int] | None = None) -> Answer:
        """One command, to the first node unless another is named."""
        password = urlsplit(self.url).password
        return say(address or self.addresses[0], *words, password=password)

    def _scan(self, address: tuple[str, int], pattern: str) -> list[str]:
        cursor, found = "0", []
        while True:
            answer = self.say("SCAN", cursor, "MATCH", pattern, "COUNT", 1000, address=address)
            assert isinstance(answer, list)
            assert isinstance(answer[1], list)
            cursor = str(answer[0])
            found += [str(key) for key in answer[1]]
            if cursor == "0":
                return list(dict.fromkeys(found))


class GivenValkey(ValkeyServer):
    """A server that somebody else runs; only the namespaces made here are ours to remove."""

    def __init__(self, url: str) -> None:
        super().__init__()
        if urlsplit(url).path.strip("/") not in ("", "0"):
            raise ServerFailed(f"using {VALKEY_URL_VARIABLE}", "it must name database 0")
        self.url = url

    @property
    def addresses(self) -> list[tuple[str, int]]:
        parts = urlsplit(self.url)
        return [(parts.hostname or "127.0.0.1", parts.port or 6379)]

    def start(self) -> None:
        self.say("PING")

    def stop(self) -> None:
        for name in tuple(self._namespaces):
            self.clear(f"?namespace={name}")
            self._namespaces.discard(name)


def _namespace_of(url: str) -> str:
    return parse_qs(urlsplit(url).query).get("namespace", ["holdfast"])[0]
