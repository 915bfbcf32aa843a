"""What type checkers must know about the public API. `make check` reads this file; no test runs it.

`assert_type` fails if a call has another type. A line with an ignore fails if the checker accepts it.
"""

from typing import Any, assert_type

import shoal
from shoal import aio, jms
from shoal.history import History, connect
from shoal.jms import aio as jms_aio


def threads() -> None:
    with shoal.connect("inproc://typing", client_id="desk", message_bytes_max=1 << 20) as bus:
        assert_type(bus, shoal.Bus)
        assert_type(bus.publish("a", 1), int)
        assert_type(bus.publish("a", 1, persistent=True), shoal.Receipt)
        live = bus.subscribe("a", wait=True, retained=True, concurrency=2)
        assert_type(live, shoal.Subscription)
        assert_type(live.receive(), shoal.Message)
        assert_type(live.receive(1.0), shoal.Message | None)
        assert_type(live.receive(timeout_s=1), shoal.Message | None)
        for message in live:
            assert_type(message.topic, str)
        assert_type(bus.request("a").body, Any)
        durable = bus.subscribe("a", durable="all", prefetch=10)
        assert_type(durable, shoal.StoredSubscription)
        assert_type(durable.receive(), shoal.Message)
        queue = bus.queue("orders", deliveries_max=3)
        assert_type(queue.send({"id": 7}), shoal.Receipt)
        assert_type(queue.receive(), shoal.Message)
        assert_type(queue.receive(0.5), shoal.Message | None)
        with bus.transaction() as tx:
            assert_type(tx.receive("orders"), shoal.Message)


async def tasks() -> None:
    async with aio.connect("inproc://typing") as bus:
        assert_type(bus, aio.Bus)
        assert_type(await bus.publish("a", 1), int)
        assert_type(await bus.publish("a", 1, persistent=True), shoal.Receipt)
        live = bus.subscribe("a", retained=True)
        assert_type(await live.receive(), shoal.Message)
        assert_type(await live.receive(1.0), shoal.Message | None)
        assert_type(await bus.queue("orders").receive(), shoal.Message)
        assert_type(await bus.queue("orders").receive(1.0), shoal.Message | None)


def jakarta() -> None:
    factory = jms.ConnectionFactory("inproc://typing", prefetch=10, client_id="desk")
    with factory.create_context() as context:
        consumer = context.create_consumer(context.create_queue("orders"))
        assert_type(consumer.receive_body(str), str | None)
        assert_type(consumer.receive(timeout_s=1.0), jms.Message | None)
    jms_aio.ConnectionFactory("inproc://typing", prefetch=10)


def past() -> None:
    with connect("grpc://127.0.0.1:7475") as history:
        assert_type(history, History)
        assert_type(history.offset_at(0), int)
        history.read("a", start="earliest", limit=10)


def mistakes(bus: shoal.Bus) -> None:
    shoal.conect()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    shoal.connect(domian="desk")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    bus.publish("a", 1, priorty=7)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    bus.queue("orders", deliveries=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
