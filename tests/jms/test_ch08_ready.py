"""Sections 8.2 and 8.3: a consumer gets whatever is sent after it was made, over every link."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S, World, open_stored, two_nodes
from store_node import listening_url

import shoal
from shoal import jms

COUNT = 25


def missed(sender: jms.JMSContext, create: Callable[[jms.Topic, int], jms.JMSConsumer]) -> list[int]:
    """Which of the consumers did not get what was sent at once."""
    producer, lacking = sender.create_producer(), []
    for number in range(COUNT):
        topic = jms.Topic(f"ready/{number}")
        with create(topic, number) as consumer:
            producer.send(topic, number)
            if consumer.receive(timeout_s=2.0) is None:
                lacking.append(number)
    return lacking


@pytest.mark.every_link
def test_a_consumer_of_a_topic_is_ready_when_it_is_made(world: World) -> None:
    receiver, sender = world.receiver(), world.sender()
    assert missed(sender, lambda topic, _: receiver.create_consumer(topic)) == []


@pytest.mark.every_link
def test_a_consumer_of_a_program_that_has_just_begun_is_ready(place: tuple[str, str]) -> None:
    with contextlib.ExitStack() as nodes:
        sending, other = two_nodes(place[0], nodes)
        url, options = url_of(sending, other, place[0])
        with jms.ConnectionFactory(
            bus=sending, default_delivery_mode=NON_PERSISTENT
        ).create_context() as sender:
            producer = sender.create_producer()
            for number in range(3):
                topic = jms.Topic(f"begun/{number}")
                with (
                    shoal.connect(url, **options) as bus,
                    jms.ConnectionFactory(bus=bus).create_context() as receiver,
                ):
                    consumer = receiver.create_consumer(topic)
                    producer.send(topic, number)
                    assert consumer.receive_body(int, timeout_s=PATIENCE_S) == number


def url_of(sending: shoal.Bus, other: shoal.Bus, link: str) -> tuple[str, dict[str, str]]:
    """How one more program joins."""
    if link == "norm":
        return "norm://", {"domain": sending.config.domain, "interface": "lo"}
    if link == "inproc":
        return f"inproc://{sending.config.domain}", {}
    if link == "tcp":
        return listening_url(sending), {}
    return next(state.url for state in other.links), {}


@pytest.fixture(params=["norm", "tcp", "router"])
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[shoal.Bus, shoal.Bus]]:
    """Two programs and a store that each of them reaches over a link."""
    link = request.param
    store = "embedded" if link == "router" else "process"
    with contextlib.ExitStack() as nodes:
        first = nodes.enter_context(open_stored(link, store, tmp_path / "store"))
        if link == "norm":
            second = shoal.connect("norm://", domain=first.config.domain, interface="lo")
        else:
            second = shoal.connect(next(state.url for state in first.links))
        yield first, nodes.enter_context(second)


@pytest.mark.parametrize("kind", ["durable", "shared", "shared durable"])
def test_a_consumer_that_a_store_serves_is_ready_when_it_is_made(
    programs: tuple[shoal.Bus, shoal.Bus], kind: str
) -> None:
    sending, receiving = programs
    sender = jms.ConnectionFactory(bus=sending, default_delivery_mode=NON_PERSISTENT).create_context()
    client_id = secrets.token_hex(4)
    receiver = jms.ConnectionFactory(bus=receiving, client_id=client_id).create_context()
    with sender, receiver:

        def create(topic: jms.Topic, number: int) -> jms.JMSConsumer:
            if kind == "durable":
                return receiver.create_durable_consumer(topic, f"own-{number}")
            if kind == "shared":
                return receiver.create_shared_consumer(topic, f"team-{number}")
            return receiver.create_shared_durable_consumer(topic, f"team-{number}")

        assert missed(sender, create) == []
