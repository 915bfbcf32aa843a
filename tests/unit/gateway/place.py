"""A gateway for tests, and a small STOMP client: frames over a TCP connection of asyncio."""

import asyncio
import contextlib
import itertools
import os
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import shoal.aio
from shoal.gateway.config import GatewayConfig
from shoal.gateway.frames import Frame, FrameReader, encode
from shoal.gateway.server import Gateway


class StompClient:
    """One connection. Frames of the gateway wait in `frames` until they are asked for."""

    def __init__(self, url: str, **connect: str) -> None:
        host, _, port = url.partition("://")[2].rpartition(":")
        self._host, self._port = host, int(port)
        self._connect = {"accept-version": "1.2", "host": "test", **connect}
        self._receipts = itertools.count(1)
        self._reader_of_frames = FrameReader(64 << 20)
        self.frames: deque[Frame] = deque()

    async def __aenter__(self) -> Self:
        await self.open()
        frame = await self.next()
        assert frame.command == "CONNECTED", frame
        return self

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self.send("CONNECT", **self._connect)

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def send(self, command: str, body: bytes = b"", **headers: str) -> None:
        """Send a frame; `content_type=` is the header content-type."""
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self._writer.write(encode(command, named, body))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def call(self, command: str, body: bytes = b"", **headers: str) -> Frame:
        """Send a frame and wait for its receipt, or the error that takes its place."""
        receipt = f"r{next(self._receipts)}"
        self.send(command, body, receipt=receipt, **headers)
        return await self.next(lambda frame: frame.headers.get("receipt-id") == receipt)

    async def done(self, command: str, body: bytes = b"", **headers: str) -> None:
        frame = await self.call(command, body, **headers)
        assert frame.command == "RECEIPT", frame

    async def message(self, timeout_s: float = 10.0) -> Frame:
        return await self.next(lambda frame: frame.command == "MESSAGE", timeout_s)

    async def error(self) -> Frame:
        return await self.next(lambda frame: frame.command == "ERROR")

    async def next(self, wanted: Any = lambda frame: True, timeout_s: float = 10.0) -> Frame:
        """The first frame that is wanted; those before it wait on. An ERROR is always wanted."""
        at = 0
        async with asyncio.timeout(timeout_s):
            while True:
                while at < len(self.frames):
                    frame = self.frames[at]
                    if wanted(frame) or frame.command == "ERROR":
                        del self.frames[at]
                        return frame
                    at += 1
                data = await self._reader.read(65_536)
                assert data, "the gateway closed the connection"
                self._reader_of_frames.feed(data)
                while (frame := self._reader_of_frames.poll_frame()) is not None:
                    self.frames.append(frame)

    async def nothing(self, timeout_s: float = 0.2) -> bool:
        """Whether no message comes for a while."""
        try:
            await self.message(timeout_s)
        except TimeoutError:
            return True
        return False

    async def closed(self) -> bool:
        """Whether the gateway closes the connection."""
        async with asyncio.timeout(10):
            while await self._reader.read(65_536):
                pass
        await self.close()
        return True


_domains = itertools.count()


@dataclass
class Place:
    """A gateway on a domain of its own, with a program of the bus beside it."""

    gateway: Gateway
    bus: shoal.aio.Bus

    def client(self, **connect: str) -> StompClient:
        return StompClient(self.gateway.urls[0], **connect)


@contextlib.asynccontextmanager
async def place(store: Path | None = None, **config: Any) -> AsyncIterator[Place]:
    """A gateway, and a program with an embedded store if there is a directory for it."""
    domain = f"inproc://gateway-{os.getpid()}-{next(_domains)}"
    options: dict[str, Any] = {} if store is None else {"store": store}
    config = {"stomp": ("tcp://127.0.0.1:0",), **config}
    async with (
        shoal.aio.connect(domain, **options) as bus,
        shoal.aio.connect(domain) as own,
        Gateway(GatewayConfig(**config), own) as gateway,
    ):
        yield Place(gateway, bus)
