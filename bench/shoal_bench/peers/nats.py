"""nats-py, with the server of `nats_server` between publisher and subscribers."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from shoal_bench.bodies import Bodies, Reception
from shoal_bench.contestant import PATIENCE_S, Load, Place
from shoal_bench.errors import ExperimentError

DATA, HERE, PING, PONG = "bench.data", "bench.here", "bench.ping", "bench.pong"


async def _connect(place: Place) -> Client:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await nats.connect(
                f"nats://127.0.0.1:{place.port}", allow_reconnect=False, pending_size=4 << 20
            )
        except (OSError, nats.errors.Error) as error:
            if time.monotonic() > deadline:
                raise ExperimentError(f"no nats-server answered: {error}") from error
            await asyncio.sleep(0.05)


async def _wait_for_subscribers(client: Client, count: int) -> None:
    """Subscribers say that they are here until the first message comes."""
    here: set[bytes] = set()
    answers = await client.subscribe(HERE)
    deadline = time.monotonic() + PATIENCE_S
    while len(here) < count:
        if time.monotonic() > deadline:
            raise ExperimentError(f"only {len(here)} of {count} subscribers came")
        with contextlib.suppress(nats.errors.TimeoutError):
            here.add((await answers.next_msg(timeout=0.1)).data)
    await answers.unsubscribe()


def publish(place: Place, load: Load, wait_received: Callable[[], None]) -> dict[str, Any]:
    """Publish in a plain loop; it waits when the client's buffer is full."""
    asyncio.run(_publish(place, load, wait_received))
    return {}


async def _publish(place: Place, load: Load, wait_received: Callable[[], None]) -> None:
    bodies = load.bodies()
    client = await _connect(place)
    await _wait_for_subscribers(client, load.subscribers)
    for body in bodies.sent(load.count):
        await client.publish(DATA, body)
    await client.flush(timeout=60)
    await asyncio.to_thread(wait_received)
    await client.close()


def subscribe(place: Place, reception: Reception) -> None:
    """Give `subscribe` a coroutine, with no limit on what waits for it."""
    asyncio.run(_subscribe(place, reception))


async def _subscribe(place: Place, reception: Reception) -> None:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    next_expected = reception.expected.__next__

    async def take(message: Msg) -> None:
        body, expected = message.data, next_expected()
        if body != expected and reception.is_over(body, expected):
            over.set_result(None)

    client = await _connect(place)
    await client.subscribe(DATA, cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
    while not reception.began_s and not over.done():
        await client.publish(HERE, b"%d" % place.number)
        await client.flush()
        await asyncio.wait([over], timeout=0.05)
    await over
    await client.close()


def ping(place: Place, bodies: Bodies, count: int) -> list[int]:
    """Publish, and wait for the answer's message."""
    return asyncio.run(_ping(place, bodies, count))


async def _ping(place: Place, bodies: Bodies, count: int) -> list[int]:
    times = []
    client = await _connect(place)
    answers = await client.subscribe(PONG)
    await _wait_for_subscribers(client, 1)
    for body in bodies.sent(count):
        began = perf_counter_ns()
        await client.publish(PING, body)
        answer = await answers.next_msg(timeout=PATIENCE_S)
        times.append(perf_counter_ns() - began)
        if answer.data != body:
            raise ExperimentError("an answer was not the question's")
    await client.close()
    return times


def echo(place: Place, count: int) -> None:
    """Publish what comes, in a callback."""
    asyncio.run(_echo(place, count))


async def _echo(place: Place, count: int) -> None:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = iter(range(count - 1, -1, -1))
    begun = False

    async def answer(message: Msg) -> None:
        nonlocal begun
        begun = True
        await client.publish(PONG, message.data)
        if next(left) == 0:
            over.set_result(None)

    client = await _connect(place)
    await client.subscribe(PING, cb=answer)
    while not begun:
        await client.publish(HERE, b"0")
        await client.flush()
        await asyncio.wait([over], timeout=0.05)
    await over
    await client.flush()
    await client.close()
