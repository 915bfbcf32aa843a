"""Sections 3.4.9, 3.5.11, 6.2.10, 7.7, 7.9 and 8.3.3: what is left when a store is killed halfway."""

import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import HERE, PATIENCE_S
from waiting import until

from shoal import jms
from shoal.bus.consumer import Consumer
from shoal.jms.feeds import StoreFeed

QUEUE = jms.Queue("work")


class KilledStore:
    """A store in a process of its own, which can be killed and started again on its directory."""

    def __init__(self, directory: Path) -> None:
        self.domain = f"kill-{secrets.token_hex(4)}"
        self._command = [sys.executable, str(HERE / "store_node.py"), "norm", str(directory), self.domain]
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Begin, and wait until it is there."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip(), "the store did not start"

    def suspend(self) -> None:
        """It answers nothing from now on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """End it as a power failure does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None

    def factory(self, **options: object) -> jms.ConnectionFactory:
        """Makes connections to its domain."""
        return jms.ConnectionFactory("norm://", domain=self.domain, interface="lo", **options)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KilledStore]:
    made = KilledStore(tmp_path / "store")
    yield made
    made.kill()


def received_while_killed(store: KilledStore, consumer: jms.JMSConsumer) -> jms.Message | None:
    """What `receive` returns whose acknowledgement the store never hears, because it dies."""
    until_ready(consumer)
    store.suspend()
    found: list[jms.Message | None] = []
    reader = threading.Thread(target=lambda: found.append(consumer.receive(timeout_s=PATIENCE_S)))
    reader.start()
    until_acknowledging(consumer)
    store.kill()
    store.start()
    reader.join(PATIENCE_S)
    assert found
    return found[0]


def until_ready(consumer: jms.JMSConsumer) -> None:
    until(lambda: inner_of(consumer).pending)


def until_acknowledging(consumer: jms.JMSConsumer) -> None:
    until(lambda: not inner_of(consumer).pending)


def inner_of(consumer: jms.JMSConsumer) -> Consumer:
    """The bus's consumer."""
    feed = consumer._consumer._feed
    assert isinstance(feed, StoreFeed)
    return feed._consumer


@pytest.mark.parametrize("mode", [jms.Session.AUTO_ACKNOWLEDGE, jms.Session.DUPS_OK_ACKNOWLEDGE])
def test_a_non_persistent_message_that_was_received_while_the_store_died_does_not_come_again(
    store: KilledStore, mode: int
) -> None:
    with store.factory(default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT).create_context(mode) as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "first")
        first = received_while_killed(store, consumer)
        assert first is not None
        context.create_producer().send(QUEUE, "second")
        second = consumer.receive(timeout_s=PATIENCE_S)
        assert second is not None
        assert [first.body, second.body] == ["first", "second"]
        assert consumer.receive(timeout_s=0.2) is None


def test_a_non_persistent_message_whose_acknowledgement_failed_does_not_come_again(
    store: KilledStore,
) -> None:
    factory = store.factory(default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
    with factory.create_context(jms.Session.CLIENT_ACKNOWLEDGE) as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "first")
        first = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        store.suspend()
        failed: list[BaseException] = []

        def acknowledge() -> None:
            try:
                first.acknowledge()
            except jms.JMSError as error:
                failed.append(error)

        thread = threading.Thread(target=acknowledge)
        thread.start()
        until(lambda: not inner_of(consumer)._inbox.holds(first._core))
        store.kill()
        store.start()
        thread.join(PATIENCE_S)
        assert failed, "the store cannot have answered"
        context.create_producer().send(QUEUE, "second")
        second = consumer.receive(timeout_s=PATIENCE_S)
        assert second is not None
        assert second.body == "second"


def test_a_persistent_message_that_was_received_while_the_store_died_comes_again_marked(
    store: KilledStore,
) -> None:
    with store.factory().create_context() as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "first")
        first = received_while_killed(store, consumer)
        again = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        assert again is not None
        assert (first.body, first.jms_redelivered) == ("first", False)
        assert (again.body, again.jms_redelivered) == ("first", True)
        assert again.get_int_property("JMSXDeliveryCount") == 2
        assert consumer.receive(timeout_s=0.2) is None


def test_a_store_that_was_killed_knows_which_subscriptions_are_shared(store: KilledStore) -> None:
    topic = jms.Topic("x")
    with store.factory(client_id="desk").create_context() as context:
        context.create_durable_consumer(topic, "own").close()
        context.create_shared_durable_consumer(topic, "common").close()
        store.kill()
        store.start()
        with pytest.raises(jms.IllegalStateError, match="unshared"):
            context.create_shared_durable_consumer(topic, "own")
        with pytest.raises(jms.IllegalStateError, match="shared"):
            context.create_durable_consumer(topic, "common")
        context.create_durable_consumer(topic, "own")
