"""The registry, the daemons and the clients of `locate`, each for a process of its own (see `workers`)."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from shoal import _core
from shoal.link.challenge import new_secret, proof_of, publisher_of
from shoal.link.directory import Endpoint, Load, Record
from shoal.link.registry_client import RegistryClient
from shoal.processes.worker import Report, Role, run_role
from shoal.registry.config import RegistryConfig
from shoal.registry.service import Registry
from shoal_bench.errors import ExperimentError

DOMAIN = "bench-locate"
PATIENCE_S = 30.0
#: A registry answers 20 requests of an address in a second.
PER_ADDRESS_S = 19.0


def serve(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Be the registry until the experiment ends."""
    with Registry(RegistryConfig(listen=f"127.0.0.1:{options['port']}")):
        report(1)
        threading.Event().wait()
    return {}


def listen(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Be the daemons: accept connections, prove addresses, and register."""
    asyncio.run(_listen(options, report))
    return {}


async def _listen(options: dict[str, Any], report: Report) -> None:
    secret = new_secret()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, IndexError):
            if hello := await reader.read(2048):
                writer.write(_proof(hello, secret))
                await writer.drain()
        writer.close()

    client = RegistryClient(f"http://127.0.0.1:{options['port']}", DOMAIN)
    records = []
    for number in range(options["daemons"]):
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
        endpoint = Endpoint("tcp", "127.0.0.1", server.sockets[0].getsockname()[1])
        # With room for everybody: what is measured is the answer.
        records.append(
            Record(
                f"{number + 1:016x}",
                f"d{number}",
                (endpoint,),
                connections_max=100_000,
                version=_core.__version__,
                load=Load(10 * number, 0.01 * number),
            )
        )
    deadline = time.monotonic() + PATIENCE_S
    is_ready = False
    while True:
        for record in records:
            await asyncio.to_thread(client.register, record, None, None, secret)
        listing = await asyncio.to_thread(client.listing)
        if not is_ready and listing and sum(bool(each.endpoints) for each in listing.records) == len(records):
            is_ready = True
            report(1)
        if not is_ready and time.monotonic() > deadline:
            raise ExperimentError("the registry did not verify the daemons' addresses")
        await asyncio.sleep(5.0 if is_ready else 0.6)


def _proof(hello: bytes, secret: bytes) -> bytes:
    """The answer of a daemon to a registry that checks its address."""
    at = 10 + hello[9] + 1
    at += 1 + hello[at]
    publisher, node = int.from_bytes(hello[at : at + 8]), int.from_bytes(hello[at + 8 : at + 12])
    why = (proof_of(secret, node) if publisher == publisher_of(secret, node) else "no").encode()
    content = b"\x05bench" + bytes([3, 1]) + bytes(16) + bytes([len(why)]) + why
    return b"SHOAL/" + bytes([_core.WIRE_VERSION]) + len(content).to_bytes(2) + content


def ask(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Be the clients: each has an address and a connection of its own, and asks as often as it may."""
    return asyncio.run(_ask(options))


async def _ask(options: dict[str, Any]) -> Mapping[str, Any]:
    times_ns: list[int] = []
    refused = 0
    began = time.perf_counter()
    until = began + options["seconds"]
    request = (
        f"GET /v1/domains/{DOMAIN}/locate?version={_core.__version__} HTTP/1.1\r\nHost: registry\r\n\r\n"
    ).encode()

    async def one(number: int) -> None:
        nonlocal refused
        address = f"127.7.{number // 200}.{number % 200 + 1}"
        reader, writer = await asyncio.open_connection("127.0.0.1", options["port"], local_addr=(address, 0))
        due = time.perf_counter() + number / options["clients"] / PER_ADDRESS_S
        while (now := time.perf_counter()) < until:
            await asyncio.sleep(max(due - now, 0.0))
            due = max(due, time.perf_counter() - 1.0) + 1.0 / PER_ADDRESS_S
            sent = time.perf_counter_ns()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            took = time.perf_counter_ns() - sent
            if head.startswith(b"HTTP/1.1 200 "):
                if len(json.loads(body)["candidates"]) != 3:
                    raise ExperimentError(f"the registry answered {body!r}")
                times_ns.append(took)
            else:
                refused += 1
        writer.close()

    await asyncio.gather(*(one(number) for number in range(options["clients"])))
    return {"times_ns": times_ns, "refused": refused, "seconds": time.perf_counter() - began}


ROLES: dict[str, Role] = {"serve": serve, "listen": listen, "ask": ask}

if __name__ == "__main__":
    run_role(ROLES)
