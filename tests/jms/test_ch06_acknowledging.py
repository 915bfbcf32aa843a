"""Section 6.2.10: when the store is told that a message was dealt with."""

import threading

import pytest
from conftest import PATIENCE_S
from waiting import until

import shoal
from shoal import jms
from shoal._core import Message as BusMessage
from shoal.bus.store_session import Body, Done
from shoal.jms.feeds import StoreFeed

ORDERS = jms.Queue("orders")


@pytest.fixture
def acknowledged(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The bodies of which the store was told, as they are."""
    told: list[object] = []
    acknowledge = StoreFeed.begin_acknowledge

    def noted(feed: StoreFeed, core: BusMessage, done: Done, *, through: bool) -> None:
        def answered(answer: Body | None, error: BaseException | None) -> None:
            told.append(core.body)
            done(answer, error)

        acknowledge(feed, core, answered, through=through)

    monkeypatch.setattr(StoreFeed, "begin_acknowledge", noted)
    return told


def test_receive_acknowledges_before_it_returns(
    factory: jms.ConnectionFactory, acknowledged: list[object]
) -> None:
    """AUTO_ACKNOWLEDGE: a program that is killed as soon as it has the message does not get it again."""
    with factory.create_context() as context:
        context.create_producer().send(ORDERS, "1").send(ORDERS, "2")
        consumer = context.create_consumer(ORDERS)
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "1"
        assert acknowledged == ["1"]


def test_a_listeners_message_is_acknowledged_when_it_has_returned(
    factory: jms.ConnectionFactory, acknowledged: list[object]
) -> None:
    """AUTO_ACKNOWLEDGE: a program that is killed in its listener gets the message again."""
    while_listening: list[list[object]] = []
    with factory.create_context() as context, factory.create_context() as sender:
        consumer = context.create_consumer(ORDERS)
        consumer.message_listener = lambda message: while_listening.append(list(acknowledged))
        sender.create_producer().send(ORDERS, "1").send(ORDERS, "2")
        until(lambda: acknowledged == ["1", "2"])
    assert while_listening == [[], ["1"]]


def test_a_commit_that_the_store_refuses_did_nothing_and_says_so(bus: shoal.Bus) -> None:
    """Sections 6.2.7 and 10.3."""
    full = jms.Queue("full")
    bus.queue("full", backlog_max_bytes=1000).send("x", timeout_s=PATIENCE_S)
    factory = jms.ConnectionFactory(bus=bus)
    with factory.create_context(jms.Session.SESSION_TRANSACTED) as context:
        producer = context.create_producer().send(ORDERS, "order")
        context.commit()
        consumer = context.create_consumer(ORDERS)
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "order"
        producer.send(full, "x" * 2000)
        with pytest.raises(jms.TransactionRolledBackError):
            context.commit()
        again = consumer.receive(timeout_s=PATIENCE_S)
        assert again is not None
        assert (again.body, again.jms_redelivered) == ("order", True)
        # The next transaction has begun.
        context.commit()
        assert [message.body for message in context.create_browser(full)] == ["x"]


@pytest.mark.parametrize("call", ["receive", "receive_body"])
def test_stop_waits_for_a_receive_that_acknowledges_and_nothing_is_delivered_afterwards(
    factory: jms.ConnectionFactory, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Section 6.1.5."""
    begun, may_end = threading.Event(), threading.Event()
    acknowledge = StoreFeed.begin_acknowledge

    def slowly(feed: StoreFeed, core: BusMessage, done: Done, *, through: bool) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        acknowledge(feed, core, done, through=through)

    monkeypatch.setattr(StoreFeed, "begin_acknowledge", slowly)
    done: list[str] = []
    with factory.create_context() as sender, factory.create_context() as context:
        consumer = context.create_consumer(ORDERS)
        sender.create_producer().send(ORDERS, "1").send(ORDERS, "2")

        def receive() -> None:
            if call == "receive":
                consumer.receive(timeout_s=PATIENCE_S)
            else:
                consumer.receive_body(str, timeout_s=PATIENCE_S)
            done.append("received")

        def stop() -> None:
            context.stop()
            done.append("stopped")

        threads = [threading.Thread(target=each) for each in (receive, stop)]
        threads[0].start()
        assert begun.wait(PATIENCE_S)
        threads[1].start()
        threads[1].join(0.1)
        assert done == [], "it is not stopped while a message is on its way to the program"
        may_end.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert set(done) == {"received", "stopped"}
        assert consumer.receive(timeout_s=0.2) is None
        context.start()
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "2"
