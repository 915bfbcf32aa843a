"""Section 6.2.5: a browser shows what will be delivered, in that order, and takes nothing."""

import pytest
from conftest import PATIENCE_S
from waiting import until

import shoal
from shoal import jms
from shoal.jms.feeds import StoreFeed

QUEUE = jms.Queue("browsed")
pytestmark = pytest.mark.every_link


def shown(context: jms.JMSContext, selector: str | None = None) -> list[object]:
    with context.create_browser(QUEUE, selector) as browser:
        return [message.get_body(object) for message in browser]


def test_it_shows_the_order_of_delivery(factory: jms.ConnectionFactory) -> None:
    with factory.create_context() as context:
        producer = context.create_producer()
        for number in range(40):
            producer.set_priority(number * 7 % 10).send(QUEUE, number)
        order = sorted(range(40), key=lambda number: (-(number * 7 % 10), number))
        assert shown(context) == order
        assert shown(context, "JMSPriority < 5") == [each for each in order if each * 7 % 10 < 5]
        consumer = context.create_consumer(QUEUE)
        assert [consumer.receive_body(int, timeout_s=PATIENCE_S) for _ in range(40)] == order
        assert shown(context) == []


def test_it_goes_on_from_page_to_page_in_that_order(bus: shoal.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.bus.queues.BROWSE_MESSAGES", 3)
    with jms.ConnectionFactory(bus=bus).create_context() as context:
        producer = context.create_producer()
        for number in range(20):
            producer.set_priority(number % 3).send(QUEUE, number)
        assert shown(context) == sorted(range(20), key=lambda number: (-(number % 3), number))


def test_it_shows_messages_that_a_consumer_only_has_ready(factory: jms.ConnectionFactory) -> None:
    with factory.create_context(jms.Session.CLIENT_ACKNOWLEDGE) as context:
        consumer = context.create_consumer(QUEUE)
        producer = context.create_producer()
        for number in range(5):
            producer.send(QUEUE, number)
        feed = consumer._consumer._feed
        assert isinstance(feed, StoreFeed)
        until(lambda: feed._consumer.pending == 5)
        assert shown(context) == [0, 1, 2, 3, 4]
        first = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        # The program has it.
        until(lambda: shown(context) == [1, 2, 3, 4])
        first.acknowledge()
        assert [consumer.receive_body(int, timeout_s=PATIENCE_S) for _ in range(4)] == [1, 2, 3, 4]
