"""Speaks HTTP with a registry: what daemons and clients need, with the standard library alone."""

import contextlib
import http.client
import json
import os
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from shoal import _core
from shoal.config.connection import REGISTRY_PORT
from shoal.config.tokens import Token, TokenSource
from shoal.errors import ConfigError, LinkError, LinkRefusedError
from shoal.link.directory import DAEMONS_MAX, Endpoint, Record, endpoint_of
from shoal.link.words import words

#: How long a registry may take to answer; a question that waits for a change may take longer.
ANSWER_S = 5.0
#: An answer is no longer: 4,096 records of 64 KB would be, and no registry has them.
ANSWER_BYTES_MAX = 64 << 20

#: A registry has its daemons register at least this often.
REFRESH_S_MAX = 60.0
#: Daemons that an answer names to a client.
CANDIDATES_MAX = 64

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Candidate:
    """A daemon that a locator proposes."""

    endpoint: Endpoint
    publisher: str
    why: str
    #: How full or busy it is, 0 to 1.
    load: float = 0.0


@dataclass(frozen=True)
class Located:
    """What a locator answers."""

    #: The best first.
    candidates: tuple[Candidate, ...]
    #: How full or busy the daemon is that the client has; `None` if the registry does not know it.
    current_load: float | None = None


@dataclass(frozen=True)
class Registered:
    """What a registry answers a daemon."""

    stamp: int
    refresh_s: float
    #: Opens datagrams of this registry.
    key: bytes
    #: Addresses that the registry could not verify, and why.
    unproved: Mapping[str, str]


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
        token: Token | TokenSource | None = None,
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
        self.url, self._token, self._ca = url.rstrip("/"), token, ca
        self._base = f"/v1/domains/{urllib.parse.quote(domain, safe='')}"
        self._tls: ssl.SSLContext | None = None
        self._ca_stamp = _stamp(ca)
        if parts.scheme == "https":
            try:
                self._tls = ssl.create_default_context(cafile=None if ca is None else os.fspath(ca))
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"ca is {ca!r}, and cannot be used: {error}") from None

    def _trust(self) -> ssl.SSLContext | None:
        """What connections are made with: an authority that was replaced counts from now on."""
        stamp = _stamp(self._ca)
        if self._tls is not None and self._ca is not None and stamp not in (None, self._ca_stamp):
            # A file that is half written leaves the authority of before.
            with contextlib.suppress(OSError, ssl.SSLError):
                self._tls = ssl.create_default_context(cafile=os.fspath(self._ca))
                self._ca_stamp = stamp
        return self._tls

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

    def register(
        self, record: Record, udp_port: int | None, echo: bytes | None, secret: bytes = b""
    ) -> Registered:
        """Register, or renew the lease; with `secret` the daemon proves its addresses."""
        body = record.as_json() | {
            "udp_port": udp_port,
            "echo": echo.hex() if echo else None,
            "secret": secret.hex(),
        }
        answer = self._ask("PUT", f"/daemons/{record.publisher}", body)
        return _read(answer, _registered)

    def leave(self, publisher: str) -> None:
        """Say goodbye."""
        self._ask("DELETE", f"/daemons/{publisher}")

    def listing(self, since: int | None = None, wait_s: float = 0.0) -> Listing | None:
        """The domain's daemons; `None` if the list has the stamp `since`, also after `wait_s`."""
        query = "" if since is None else f"?since={since}&wait={wait_s:g}"
        answer = self._ask("GET", f"/daemons{query}", timeout_s=ANSWER_S + wait_s)
        if answer is None:
            return None
        return _read(answer, _listing)

    # --- clients ---

    def locate(
        self, *, transport: str | None = None, exclude: tuple[str, ...] = (), current: str | None = None
    ) -> Located:
        """The daemons to connect to, or those that may be better than the `current` one."""
        query = [("version", _core.__version__), *(("exclude", each) for each in exclude)]
        if transport is not None:
            query.append(("transport", transport))
        if current is not None:
            query.append(("current", current))
        return _read(self._ask("GET", f"/locate?{urllib.parse.urlencode(query)}"), _located)

    # --- HTTP ---

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float = ANSWER_S
    ) -> Any:
        """The answer's JSON; `None` if there is none."""
        headers = {"Accept": "application/json"}
        if self._token is not None:
            token = self._token.current() if isinstance(self._token, TokenSource) else self._token
            if token is not None:
                headers["Authorization"] = f"Bearer {token.text}"
        content = None
        if body is not None:
            headers["Content-Type"], content = "application/json", json.dumps(body).encode()
        tls = self._trust()
        if tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=tls)
        try:
            connection.request(method, self._base + path, content, headers)
            response = connection.getresponse()
            text = response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise LinkError(f"The registry {self.url} does not answer: {_why(error, tls)}.") from error
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
        except (ValueError, RecursionError):
            raise LinkError(f"What answers at {self.url} is no registry: it sent no JSON.") from None

    def _raise(self, status: int, text: bytes) -> None:
        try:
            detail = json.loads(text)["detail"]
        except (ValueError, KeyError, TypeError):
            detail = text[:200].decode(errors="replace")
        why = f"The registry {self.url} refused ({status}): {detail}"
        raise LinkRefusedError(why) if status in (401, 403) else LinkError(why)


def _why(error: Exception, tls: ssl.SSLContext | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}): `ca` names the authority's file"
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS as this end does ({error.reason or error})"
    if isinstance(error, http.client.HTTPException | ConnectionResetError) and tls is None:
        return f"{words(error)}; if it has a certificate, `ca` names the authority's file"
    return words(error)


def _registered(body: Any) -> Registered:
    refresh_s = float(body["refresh_s"])
    if not 0 < refresh_s <= REFRESH_S_MAX:
        raise ValueError(f"refresh_s is {refresh_s}, and must be at most {REFRESH_S_MAX:g}")
    unproved = {str(url): str(why) for url, why in body["unproved"].items()}
    return Registered(int(body["stamp"]), refresh_s, bytes.fromhex(body["key"]), unproved)


def _listing(body: Any) -> Listing:
    daemons = body["daemons"]
    if len(daemons) > DAEMONS_MAX:
        raise ValueError(f"it lists {len(daemons)} daemons, and a registry has at most {DAEMONS_MAX}")
    return Listing(int(body["stamp"]), tuple(map(Record.from_json, daemons)), bool(body["settling"]))


def _located(body: Any) -> Located:
    if len(body["candidates"]) > CANDIDATES_MAX:
        raise ValueError(f"it names {len(body['candidates'])} daemons, and may name {CANDIDATES_MAX}")
    found = tuple(
        Candidate(endpoint_of(each), str(each["publisher"]), str(each["why"]), float(each["load"]))
        for each in body["candidates"]
    )
    current = body["current"]
    return Located(found, None if current is None else float(current))


def _stamp(path: str | os.PathLike[str] | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _read(answer: Any, read: Callable[[Any], _Read]) -> _Read:
    try:
        return read(answer)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = str(error) if isinstance(error, ValueError) else repr(error)
        raise LinkError(f"The registry's answer cannot be read: {why}.") from None
