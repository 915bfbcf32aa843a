"""Events, and the warnings that are logged of them."""

import logging
import re
import time

import pytest

import shoal
from shoal.bus.events import EVENTS_MAX, EventLog, Warnings, from_core
from shoal.bus.log_limit import LOG_EVERY_S


def test_a_domain_inside_the_process_has_the_same_events(domain: str, bus: shoal.Bus) -> None:
    other = shoal.connect(domain)
    node = other.node
    assert bus.members == [node]
    one, two = other.subscribe("a/*"), other.subscribe("a/*")
    one.close()
    two.close()
    other.subscribe("b")
    other.close()
    told = list(bus.events(timeout_s=0))
    assert told == [
        shoal.MemberJoined(node),
        shoal.SubscriptionsChanged(node, ("a/*",), ()),
        shoal.SubscriptionsChanged(node, (), ("a/*",)),
        shoal.SubscriptionsChanged(node, ("b",), ()),
        shoal.SubscriptionsChanged(node, (), ("b",)),
        shoal.MemberLeft(node, failed=False),
    ]
    assert bus.members == []


def test_whoever_joins_later_is_told_who_is_there(domain: str, bus: shoal.Bus) -> None:
    with bus.subscribe("a/*"), shoal.connect(domain) as late:
        assert list(late.events(timeout_s=0)) == [
            shoal.MemberJoined(bus.node),
            shoal.SubscriptionsChanged(bus.node, ("a/*",), ()),
        ]


def test_warnings_of_one_kind_are_far_apart_and_none_goes_uncounted(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    warnings = Warnings(lambda: now[0])
    with caplog.at_level(logging.WARNING, "shoal.bus"):
        for _ in range(5):
            warnings.add(shoal.MessagesLost(2748, 5, 2, 70, 76, 7, ("prices/>", "_a")))
        warnings.add(shoal.MemberSlow(0xABC, "host-b", 4121))
        warnings.add(shoal.MemberJoined(1))
        warnings.add(shoal.MemberLeft(1, failed=False))
        now[0] += LOG_EVERY_S
        warnings.add(shoal.MessagesLost(2748, 0, 2, 0, 0, 7))
        warnings.add(shoal.MessagesLost(2748, 5, 2, 70, 76, 7))
        warnings.close()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 4
    assert "SHOAL-2101 Lost messages 70 to 76 of member 2748 (chain 2)" in lines[0]
    assert "Subscriptions that may lack them: prices/>." in lines[0]
    assert "cache_bytes" in lines[0]
    assert "SHOAL-2107 Member 2748 (host host-b, process 4121) stopped reading" in lines[1]
    assert "SHOAL-2102 Lost 7 datagrams of member 2748 (chain 2)" in lines[2]
    assert lines[2].endswith("(Similar lines suppressed: 4.)")
    assert lines[3] == "SHOAL-2112 Similar warnings suppressed: 1 (MessagesLost)."


def test_a_loss_that_no_subscription_here_can_lack_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "shoal.bus"):
        warnings = Warnings()
        # An answer to another program, on a reserved topic.
        warnings.add(shoal.MessagesLost(2748, 5, 4, 2, 2, 0, ("orders/>",)))
        # Only reserved topics are subscribed to.
        warnings.add(shoal.MessagesLost(2748, 5, 2, 2, 2, 0, ("_reply/1",)))
        assert caplog.text == ""
        # More subscriptions than the event names: one of them may lack it.
        warnings.add(shoal.MessagesLost(2748, 5, 4, 2, 2, 0, tuple(f"orders/{n}" for n in range(10))))
    assert "SHOAL-2101" in caplog.text


def test_another_node_id_is_told_as_that_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    event = from_core("renamed", 2748, {"before": 7})
    assert event == shoal.NodeIdChanged(2748, before=7)
    with caplog.at_level(logging.WARNING, "shoal.bus"):
        Warnings().add(event)
    assert "Another node has node id 7; this node continues as 2748." in caplog.text


def test_whoever_takes_events_too_late_is_told_how_many_are_gone_before_the_others() -> None:
    events = EventLog()
    for node in range(EVENTS_MAX + 3):
        events.add(shoal.MemberJoined(node))
    assert events.take() == shoal.EventsDropped(3)
    assert events.take() == shoal.MemberJoined(3)
    # What the extension module dropped before Python saw it counts, also if that is dropped in its turn.
    events.refill(lambda: [("dropped", 0, {"count": 7})])
    assert [events.take() for _ in range(EVENTS_MAX)][-2:] == [
        shoal.MemberJoined(EVENTS_MAX + 2),
        shoal.EventsDropped(7),
    ]
    assert events.take() is None
    events.refill(lambda: [("dropped", 0, {"count": 7}), *[("joined", 1, {})] * EVENTS_MAX])
    assert events.take() == shoal.EventsDropped(7)
    events.refill(lambda: [("joined", 2, {})])
    assert events.take() == shoal.EventsDropped(1)
    assert events.take() == shoal.MemberJoined(1)


def test_a_callback_that_fails_all_the_time_is_logged_now_and_then(
    domain: str, caplog: pytest.LogCaptureFixture
) -> None:
    with shoal.connect(domain) as bus:

        def fill_own_queue(message: shoal.Message) -> None:
            bus.publish("a", bytes(1000))
            bus.publish("a", bytes(1000))

        bus.subscribe("a", fill_own_queue, queue_bytes_max=10_000)
        bus.publish("a", b"")
        limit = time.monotonic() + 20
        while len(caplog.records) < 10 and time.monotonic() < limit:
            time.sleep(0.01)
    failures = [record for record in caplog.records if "SHOAL-2111 " in record.getMessage()]
    assert len(failures) == 10
    assert re.search(
        r"Further exceptions of callback .*fill_own_queue.* suppressed: \d+", caplog.records[-1].getMessage()
    )


def test_a_claim_of_a_temporary_topic_that_nobody_reads_is_not_told_of() -> None:
    with shoal.connect("inproc://claim") as bus:
        topic = bus.temporary_topic()
        with bus.subscribe(topic, queue_bytes_max=1, queue_full="drop_new"):
            bus.publish(topic, b"answer")
            assert not [
                event for event in bus.events(timeout_s=0.2) if isinstance(event, shoal.QueueNearlyFull)
            ]


def test_a_queue_that_drops_is_told_of_before_it_is_full(caplog: pytest.LogCaptureFixture) -> None:
    with (
        shoal.connect("inproc://brim") as bus,
        bus.subscribe("a", queue_full="drop_old", queue_bytes_max=100_000) as messages,
        bus.subscribe("a", queue_bytes_max=100_000) as waits,
    ):
        for _ in range(2):
            for _ in range(85):
                bus.publish("a", bytes(1000))
            event = next(
                event for event in bus.events(timeout_s=30) if isinstance(event, shoal.QueueNearlyFull)
            )
            assert event.pattern == "a"
            while messages.receive_nowait():
                pass
            while waits.receive_nowait():
                pass
        assert not [event for event in bus.events(timeout_s=0) if isinstance(event, shoal.QueueNearlyFull)]
        assert messages.dropped == 0
    lines = [record.message for record in caplog.records if "SHOAL-2110" in record.message]
    assert len(lines) == 1, "once in ten seconds"
    assert "subscription a is nearly full" in lines[0]


def test_each_queue_has_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    warnings = Warnings(lambda: now)
    for pattern in ("a", "b", "a"):
        warnings.add(shoal.QueueNearlyFull(pattern))
    assert [record.message.partition(" is ")[0].split()[-1] for record in caplog.records] == ["a", "b"]
    caplog.clear()
    for number in range(2000):
        now += 0.1
        warnings.add(shoal.QueueNearlyFull(str(number)))
    assert len(caplog.records) == 2000
    assert len(warnings._limit._periods) <= 1000
