"""A signal that does not interrupt the main thread's wait ends it all the same."""

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import shoal
from shoal import jms


@pytest.fixture(autouse=True)
def caught() -> Iterator[None]:
    """Ctrl-C raises, as in every program, also where a shell has tests ignore it in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> Iterator[shoal.Bus]:
    with shoal.connect(f"inproc://{request.node.name}") as bus:
        yield bus


def interrupted(wait: Callable[[], object]) -> None:
    """Wait while another thread takes a Ctrl-C: the system does not interrupt the wait of the main thread."""

    def take() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    timer = threading.Timer(0.2, take)
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert time.monotonic() - began < 30, "the signal was overlooked until the wait was over"
    timer.join()


def test_receiving_from_a_topic(bus: shoal.Bus) -> None:
    with bus.subscribe("a") as subscription:
        interrupted(lambda: subscription.receive(60))


def test_receiving_from_a_queue(bus: shoal.Bus) -> None:
    with bus.queue("orders").consume() as consumer:
        interrupted(lambda: consumer.receive(timeout_s=60))


def test_waiting_for_subscribers(bus: shoal.Bus) -> None:
    interrupted(lambda: bus.wait_for_subscribers("a", 1, 60))


def test_waiting_for_events(bus: shoal.Bus) -> None:
    interrupted(lambda: list(bus.events(60)))


def test_receiving_by_jms_while_the_connection_is_stopped(request: pytest.FixtureRequest) -> None:
    with jms.ConnectionFactory(f"inproc://{request.node.name}").create_connection() as connection:
        session = connection.create_session()
        consumer = session.create_consumer(session.create_topic("a"))
        interrupted(lambda: consumer.receive(timeout_s=60))
        connection.start()
        interrupted(lambda: consumer.receive(timeout_s=60))
