"""The load of benchmarks: messages encoded ahead, and a sink that counts and checks them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import shoal
from shoal import _core


@contextmanager
def counting(*subscriptions: shoal.Subscription) -> Iterator[_core.LoadSink]:
    sink = _core.LoadSink([subscription._core for subscription in subscriptions])
    thread = threading.Thread(target=sink.run)
    thread.start()
    try:
        yield sink
    finally:
        sink.finish()
        thread.join()


def test_messages_are_those_that_publish_makes(bus: shoal.Bus, domain: str) -> None:
    with shoal.connect(domain) as other:
        every = other.subscribe("a/*")
        assert bus.wait_for_subscribers("a/1", 1, 10)
        described = [("a/1", {"region": "EU", "size": 5}, None), ("a/2", None, "#7"), ("a/3", None, None)]
        load = _core.LoadPublisher(bus._connection.node, described, b"body")
        sent = load.run(0.01)
        bus.flush(10)
        found = every.receive_nowait(100_000)
    assert sent == load.sent == len(found) > 3
    first, second, third = found[:3]
    assert (first.topic, first.properties, first.body) == ("a/1", {"region": "EU", "size": 5}, b"body")
    assert (second.topic, second.correlation_id) == ("a/2", "#7")
    assert (third.topic, third.priority) == ("a/3", 4)
    assert [message.topic for message in found[3:5]] == ["a/1", "a/2"][: len(found) - 3]


def test_filters_decide_as_for_any_message(bus: shoal.Bus, domain: str) -> None:
    with shoal.connect(domain) as other:
        some = other.subscribe("a", selector="id = '#1'")
        assert bus.wait_for_subscribers("a", 1, 10)
        described = [("a", {"id": f"#{number}"}, None) for number in range(4)]
        with counting(some) as sink:
            # Runs of 64 messages, a quarter of which is wanted.
            sent = _core.LoadPublisher(bus._connection.node, described, b"").run(0.05)
            bus.flush(10)
        assert sent > 0
        assert (sink.received, sink.disordered) == (sent // 4, 0)


def test_a_full_queue_holds_the_publisher_back_and_loses_nothing(bus: shoal.Bus, domain: str) -> None:
    with shoal.connect(domain) as other:
        small = other.subscribe("a", queue_bytes_max=10_000)
        assert bus.wait_for_subscribers("a", 1, 10)
        with counting(small) as sink:
            sent = _core.LoadPublisher(bus._connection.node, [("a", None, None)], bytes(1000)).run(0.2)
            bus.flush(10)
        assert (sink.received, sink.disordered) == (sent, 0)


def test_a_publisher_that_finds_no_room_ends_in_time(bus: shoal.Bus, domain: str) -> None:
    with shoal.connect(domain) as other:
        unread = other.subscribe("a", queue_bytes_max=1000)
        assert bus.wait_for_subscribers("a", 1, 10)
        load = _core.LoadPublisher(bus._connection.node, [("a", None, None)], bytes(500))
        sent = load.run(0.1)
        found = unread.receive_nowait(1000)
        bus.flush(10)
        assert len(found) + len(unread.receive_nowait(1000)) == sent


def test_without_messages_there_is_nothing_to_publish(bus: shoal.Bus) -> None:
    with pytest.raises(shoal.errors.ConfigError, match="no message"):
        _core.LoadPublisher(bus._connection.node, [], b"")
