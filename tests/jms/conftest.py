"""Two programs of JMS in one process, each on a node of its own, over the link that was asked for.

`SHOAL_JMS_LINK` names it: `inproc` if nothing does, `norm`, `tcp`. `make jms-matrix` runs all of
them.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import shoal
from shoal import jms

LINK = os.environ.get("SHOAL_JMS_LINK", "inproc")
#: How long anything may take before a test gives up on it.
PATIENCE_S = 10.0

_numbers = itertools.count(os.getpid() * 100)
NON_PERSISTENT = jms.DeliveryMode.NON_PERSISTENT


@dataclass
class World:
    """A node that sends and a node that receives."""

    sending: shoal.Bus
    receiving: shoal.Bus
    closing: list[Callable[[], object]] = field(default_factory=list)

    def factory(self, bus: shoal.Bus, **options: Any) -> jms.ConnectionFactory:
        options.setdefault("default_delivery_mode", NON_PERSISTENT)
        return jms.ConnectionFactory(bus=bus, **options)

    def sender(self, mode: int = jms.Session.AUTO_ACKNOWLEDGE, **options: Any) -> jms.JMSContext:
        """A context of the node that sends."""
        return self._kept(self.factory(self.sending, **options).create_context(mode))

    def receiver(self, mode: int = jms.Session.AUTO_ACKNOWLEDGE, **options: Any) -> jms.JMSContext:
        """A context of the node that receives."""
        return self._kept(self.factory(self.receiving, **options).create_context(mode))

    def connection(self, **options: Any) -> jms.Connection:
        """A connection of the node that receives."""
        return self._kept(self.factory(self.receiving, **options).create_connection())

    def _kept(self, thing: Any) -> Any:
        self.closing.append(thing.close)
        return thing

    def wait(self, topic: str, count: int = 1) -> None:
        """Until the sending node knows that somebody subscribes."""
        assert self.sending.wait_for_subscribers(topic, count, PATIENCE_S)

    def exchange(self, message: jms.Message, selector: str | None = None, **producer: Any) -> jms.Message:
        """Send a message across, and return what arrives."""
        sender, receiver = self.sender(), self.receiver()
        topic = receiver.create_topic(f"exchange/{next(_numbers)}")
        consumer = receiver.create_consumer(topic, selector)
        self.wait(topic.name)
        sender._session.create_producer(topic).send(message, **producer)
        arrived = consumer.receive(PATIENCE_S)
        assert arrived is not None
        return arrived


@pytest.fixture
def world() -> Iterator[World]:
    """Two nodes."""
    with Buses() as (sending, receiving):
        made = World(sending, receiving)
        yield made
        for close in reversed(made.closing):
            close()


class Buses:
    def __init__(self) -> None:
        self._open: list[shoal.Bus] = []

    def __enter__(self) -> tuple[shoal.Bus, shoal.Bus]:
        number = next(_numbers)
        if LINK == "inproc":
            self._open = [shoal.connect(f"inproc://jms-{number}") for _ in range(2)]
        elif LINK == "norm":
            options: Any = {"domain": f"jms-{number}", "interface": "lo"}
            self._open = [shoal.connect("norm://", **options) for _ in range(2)]
        elif LINK == "tcp":
            listening = shoal.listen("tcp://127.0.0.1:0")
            self._open = [listening, shoal.connect(listening.links[0].url)]
        else:
            raise pytest.UsageError(f"SHOAL_JMS_LINK is {LINK!r}, and must be inproc, norm or tcp")
        return self._open[0], self._open[1]

    def __exit__(self, *_: object) -> None:
        for bus in reversed(self._open):
            bus.close()


@pytest.fixture
def url() -> str:
    """A domain inside this process that no other test uses."""
    return f"inproc://jms-{next(_numbers)}"


@pytest.fixture
def topic_name() -> str:
    return f"topics/{next(_numbers)}"
