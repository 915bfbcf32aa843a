"""Speaks HTTP with a registry: what daemons and clients need, with the standard library alone."""

import http.client
import json
import os
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from shoal.config.connection import REGISTRY_PORT
from shoal.config.tokens import Token
from shoal.errors import ConfigError, LinkError, LinkRefusedError
from shoal.link.directory import Endpoint, Record, endpoint_of

#: How long a registry may take to answer; a question that waits for a change may take longer.
ANSWER_S = 5.0
#: An answer is no longer: 4,096 records of 64 KB would be, and no registry has them.
ANSWER_BYTES_MAX = 64 << 20

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Located:
    """A daemon that a locator proposes."""

    endpoint: Endpoint
    publisher: str
    why: str


@dataclass(frozen=True)
class Registered:
    """What a registry answers a daemon."""

    stamp: int
    refresh_s: float
    #: Opens datagrams of this registry.
    key: bytes


@dataclass(frozen=True)
class Listing:
    """The list of a domain."""

    stamp: int
    records: tuple[Record, ...]
    #: The registry has just started, and may not know every daemon yet.
    settling: bool


class RegistryClient:
    """One registry. For one thread at a time; each call makes its own connection."""

    def __init__(
        self,
        url: str,
        domain: str,
        *,
        token: Token | None = None,
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        """Know where a registry is.

        Raises:
            ConfigError: the URL is none, or `ca` cannot be read.
        """
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ConfigError(
                f"{url!r} is not the URL of a registry: it must look like https://host:{REGISTRY_PORT}"
            )
        try:
            self._host, self._port = parts.hostname, parts.port or REGISTRY_PORT
        except ValueError as error:
            raise ConfigError(f"{url!r}: {error}") from None
        self.url, self._token = url.rstrip("/"), token
        self._base = f"/v1/domains/{urllib.parse.quote(domain, safe='')}"
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            try:
                self._tls = ssl.create_default_context(cafile=None if ca is None else os.fspath(ca))
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"ca is {ca!r}, and cannot be used: {error}") from None

    def own_address(self) -> str:
        """This machine's address on the way to the registry. Nothing is sent.

        Raises:
            LinkError: the registry's host has no address, or no route leads there.
        """
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_DGRAM
            )[0]
            with socket.socket(family, kind, proto) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError as error:
            raise LinkError(
                f"The registry {self.url} cannot be reached: {error.strerror or error}."
            ) from error

    # --- daemons ---

    def register(self, record: Record, udp_port: int | None, echo: bytes | None) -> Registered:
        """Register, or renew the lease."""
        body = record.as_json() | {"udp_port": udp_port, "echo": echo.hex() if echo else None}
        answer = self._ask("PUT", f"/daemons/{record.publisher}", body)
        return _read(
            answer, lambda it: Registered(int(it["stamp"]), float(it["refresh_s"]), bytes.fromhex(it["key"]))
        )

    def leave(self, publisher: str) -> None:
        """Say goodbye."""
        self._ask("DELETE", f"/daemons/{publisher}")

    def listing(self, since: int = 0, wait_s: float = 0.0) -> Listing | None:
        """The domain's daemons; `None` if the list has the stamp `since`, also after `wait_s`."""
        answer = self._ask("GET", f"/daemons?since={since}&wait={wait_s:g}", timeout_s=ANSWER_S + wait_s)
        if answer is None:
            return None
        return _read(
            answer,
            lambda it: Listing(
                int(it["stamp"]), tuple(map(Record.from_json, it["daemons"])), bool(it["settling"])
            ),
        )

    # --- clients ---

    def locate(self, *, transport: str | None = None, exclude: tuple[str, ...] = ()) -> list[Located]:
        """The daemons to connect to, the best first."""
        query = [("exclude", each) for each in exclude]
        if transport is not None:
            query.append(("transport", transport))
        answer = self._ask("GET", f"/locate?{urllib.parse.urlencode(query)}")
        return _read(
            answer,
            lambda it: [
                Located(endpoint_of(each), str(each["publisher"]), str(each["why"]))
                for each in it["candidates"]
            ],
        )

    # --- HTTP ---

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float = ANSWER_S
    ) -> Any:
        """The answer's JSON; `None` if there is none."""
        headers = {"Accept": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.text}"
        content = None
        if body is not None:
            headers["Content-Type"], content = "application/json", json.dumps(body).encode()
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_s, context=self._tls
            )
        try:
            connection.request(method, self._base + path, content, headers)
            response = connection.getresponse()
            text = response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise LinkError(
                f"The registry {self.url} does not answer: {error or type(error).__name__}."
            ) from error
        finally:
            connection.close()
        if response.status in (204, 304):
            return None
        if len(text) > ANSWER_BYTES_MAX:
            raise LinkError(f"The registry {self.url} answered with more than {ANSWER_BYTES_MAX} bytes.")
        if response.status != 200:
            self._raise(response.status, text)
        try:
            return json.loads(text)
        except ValueError:
            raise LinkError(f"What answers at {self.url} is no registry: it sent no JSON.") from None

    def _raise(self, status: int, text: bytes) -> None:
        try:
            detail = json.loads(text)["detail"]
        except (ValueError, KeyError, TypeError):
            detail = text[:200].decode(errors="replace")
        why = f"The registry {self.url} refused ({status}): {detail}"
        raise LinkRefusedError(why) if status in (401, 403) else LinkError(why)


def _read(answer: Any, read: Callable[[Any], _Read]) -> _Read:
    try:
        return read(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise LinkError(f"The registry's answer cannot be read: {error!r}.") from None
