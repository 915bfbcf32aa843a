"""Messages that live too short, and parts of them that are too long: what is dropped, told and given back."""

import signal
import time

import pytest
from conftest import StartPeers
from programs import Peer
from test_delivery import meet, whole

MB = 1_000_000
#: Bound of one message, and of all parts together.
BOUND_BYTES = 8 * MB


def begin(publisher: Peer, subscriber: Peer, size: int, part: int, source: int) -> None:
    """Publish one message, and stop when `part` bytes of it have arrived."""
    before = subscriber.ask("stats")["stats"]["payload_bytes_received"]
    publisher.ask("publish_aside", source=source, topic="t/x", count=1, sizes=[size])
    deadline = time.monotonic() + 20
    while subscriber.ask("stats")["stats"]["payload_bytes_received"] - before < part:
        assert time.monotonic() < deadline, "so much does not arrive"
    publisher.freeze()
    assert str(source) not in subscriber.ask("received", pattern="t/>")["received"], "it came whole"


# --- time to live ---


def test_a_message_that_waited_too_long_for_its_reader_is_not_delivered(start: StartPeers) -> None:
    publisher, subscriber = start(2)
    subscriber.ask("subscribe", pattern="t/>", read=False)
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    for source, ttl_s in enumerate([0.2, None, 60.0, 0.2]):
        publisher.ask("publish", topic="t/x", count=1, sizes=[100], source=source, ttl_s=ttl_s)
    publisher.ask("flush", timeout_s=60)
    # They are here, and grow older than they may.
    time.sleep(0.3)
    subscriber.ask("read", pattern="t/>")
    publisher.ask("publish", topic="t/x", count=1, sizes=[100], source=4, ttl_s=60.0)
    subscriber.ask("wait_received", pattern="t/>", source=4, count=1)
    assert sorted(subscriber.ask("received", pattern="t/>")["received"]) == ["1", "2", "4"]


def test_a_message_that_waited_too_long_at_its_publisher_is_not_delivered(start: StartPeers) -> None:
    (publisher,) = start(1, rate_bytes_per_s=1e6)
    (subscriber,) = start(1)
    meet([publisher], [subscriber])
    # What goes before them takes four seconds.
    publisher.ask("publish", topic="t/x", count=400, sizes=[10_000], source=0)
    published = time.monotonic()
    for source, ttl_s in ((1, 1.5), (2, 60.0), (3, None)):
        publisher.ask("publish", topic="t/x", count=1, sizes=[100], source=source, ttl_s=ttl_s)
    assert time.monotonic() - published < 1.5, "publishing itself took so long that the test says nothing"
    got = subscriber.ask("wait_received", pattern="t/>", source=3, count=1)
    assert time.monotonic() - published > 1.5, "nothing had to wait"
    assert sorted(got["received"]) == ["0", "2", "3"]
    whole(got, 0, 400)


# --- parts of messages ---


def test_a_part_beyond_the_bound_is_told_and_costs_one_message_and_no_memory(start: StartPeers) -> None:
    (slow,) = start(1, rate_bytes_per_s=4e6)
    (other,) = start(1)
    (subscriber,) = start(1, message_bytes_max=BOUND_BYTES, assembly_bytes_max=BOUND_BYTES)
    meet([slow, other], [subscriber])
    begin(slow, subscriber, size=7 * MB, part=3 * MB, source=0)
    before = subscriber.ask("memory")["bytes"]
    # Together with the part that is here, each of these is too much.
    for number in range(5):
        other.ask("publish", topic="t/x", count=1, sizes=[7 * MB], source=1, start=number)
        other.ask("publish", topic="t/x", count=1, sizes=[100], source=2, start=number)
    whole(subscriber.ask("wait_received", pattern="t/>", source=2, count=5), 2, 5)
    grown = subscriber.ask("memory")["bytes"] - before
    assert grown < 2 * BOUND_BYTES, f"{grown} bytes"
    told = [event for event in subscriber.ask("told")["events"] if event["event"] == "Unreadable"]
    assert len(told) == 5
    assert {event["node"] for event in told} == {other.node}
    assert all("assembly_bytes_max is 8000000 bytes" in event["why"] for event in told)
    # Whoever came first is not disturbed, and then there is room again.
    slow.thaw()
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=1), 0, 1)
    other.ask("publish", topic="t/x", count=1, sizes=[7 * MB], source=3)
    got = subscriber.ask("wait_received", pattern="t/>", source=3, count=1)
    whole(got, 3, 1)
    assert "1" not in got["received"]


@pytest.mark.parametrize("returns", [True, False])
def test_a_member_that_fails_in_the_middle_of_a_message_gives_its_room_back(
    start: StartPeers, returns: bool
) -> None:
    (victim,) = start(1, rate_bytes_per_s=4e6, heartbeat_s=0.2, missed_heartbeats_max=3)
    (other,) = start(1)
    (subscriber,) = start(1, message_bytes_max=BOUND_BYTES, assembly_bytes_max=BOUND_BYTES)
    meet([victim, other], [subscriber])
    begin(victim, subscriber, size=7 * MB, part=3 * MB, source=0)
    if not returns:
        victim.signal(signal.SIGKILL)
    assert subscriber.ask("wait_event", event="MemberLeft", node=victim.node, timeout_s=60)["failed"]
    told = subscriber.ask("wait_event", event="Unreadable", node=victim.node)
    assert "in the middle of a large message" in told["why"]
    other.ask("publish", topic="t/x", count=3, sizes=[7 * MB], source=1)
    whole(subscriber.ask("wait_received", pattern="t/>", source=1, count=3), 1, 3)
    if returns:
        victim.thaw()
        victim.ask("publish", topic="t/x", count=4, sizes=[MB, 100], source=2)
        got = subscriber.ask("wait_received", pattern="t/>", source=2, count=4)
        whole(got, 2, 4)
        assert "0" not in got["received"], "its beginning was given up"


def test_a_member_that_was_silent_for_so_long_that_it_failed_goes_on_where_it_was(start: StartPeers) -> None:
    (publisher,) = start(1, heartbeat_s=0.2, missed_heartbeats_max=3)
    (subscriber,) = start(1)
    meet([publisher], [subscriber])
    publisher.ask("publish", topic="t/x", count=2000, sizes=[1000, 5000])
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=2000), 0, 2000)
    publisher.freeze()
    assert subscriber.ask("wait_event", event="MemberLeft", node=publisher.node, timeout_s=60)["failed"]
    publisher.thaw()
    publisher.ask("publish", topic="t/x", count=2000, sizes=[1000, 5000], start=2000)
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=4000), 0, 4000)
