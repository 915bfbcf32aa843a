"""Asks the listener at an address to prove that it is the daemon that registered it. Keeps no connection."""

import asyncio
import base64
import contextlib
import os
import ssl
import struct
from pathlib import Path

from shoal.link.challenge import ANSWER_BYTES_MAX, draw_node, hello, proof_of, publisher_of, reason_of
from shoal.link.directory import Endpoint

#: How long a listener may take to answer.
ANSWER_S = 2.0
#: Listeners that are asked at once.
ASKED_MAX = 64

_SECURE, _HTTP = ("tls", "wss"), ("ws", "wss")
#: The head of a WebSocket's answer is no longer.
_HEAD_BYTES_MAX = 16 << 10
_BINARY, _FINAL, _MASKED = 0x02, 0x80, 0x80


class Prover:
    """Asks listeners. For one event loop."""

    def __init__(self, own: tuple[Path, Path] | None = None) -> None:
        """Ask under a certificate and its key, for listeners that ask for one."""
        self._own = own
        self._asking = asyncio.Semaphore(ASKED_MAX)

    async def __call__(self, endpoint: Endpoint, domain: str, secret: bytes) -> str | None:
        """Why an address is not proved; `None` if it is."""
        node = draw_node()
        greeting = hello(domain, publisher_of(secret, node), node)
        async with self._asking:
            try:
                reason = await asyncio.wait_for(self._ask(endpoint, greeting), ANSWER_S)
            except TimeoutError:
                return f"no answer within {ANSWER_S:g} s"
            except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                return str(error) or type(error).__name__
        return None if reason == proof_of(secret, node) else "another program listens there"

    async def _ask(self, endpoint: Endpoint, greeting: bytes) -> str:
        context = self._context() if endpoint.transport in _SECURE else None
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, ssl=context, limit=_HEAD_BYTES_MAX
        )
        try:
            is_http = endpoint.transport in _HTTP
            if is_http:
                await _upgrade(reader, writer, endpoint)
            writer.write(_frame(greeting) if is_http else greeting)
            await writer.drain()
            answer = b""
            while (reason := reason_of(answer)) is None:
                came = await (_read_frame(reader) if is_http else reader.read(ANSWER_BYTES_MAX))
                if not came or len(answer) > ANSWER_BYTES_MAX:
                    raise ValueError("the listener closed the connection")
                answer += came
            return reason
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _context(self) -> ssl.SSLContext:
        """For a connection to any listener: the proof says whether it is the right one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self._own is not None:
            context.load_cert_chain(*self._own)
        return context


# A WebSocket (RFC 6455) as far as one question and its answer need it: the library is for daemons that have
# such links.


async def _upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    writer.write(
        f"GET {endpoint.path or '/'} HTTP/1.1\r\nHost: {host}:{endpoint.port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: shoal\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode(errors="replace")
    if not status.startswith("HTTP/1.1 101 "):
        raise ValueError(f"no WebSocket answers there, but {status}")


def _frame(content: bytes) -> bytes:
    """One message of a client; a mask of zeros is a mask."""
    return struct.pack("!BBH", _FINAL | _BINARY, _MASKED | 126, len(content)) + bytes(4) + content


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    """The content of the next frame."""
    first, length = await reader.readexactly(2)
    if length == 126:
        (length,) = struct.unpack("!H", await reader.readexactly(2))
    if first & 0x0F != _BINARY or length > ANSWER_BYTES_MAX:
        raise ValueError("the listener closed the WebSocket")
    return await reader.readexactly(length)
