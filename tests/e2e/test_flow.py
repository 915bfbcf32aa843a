"""Members that are slow, frozen or dead; publishing faster than anybody reads."""

import signal
import socket
import time

import pytest
from conftest import StartPeers
from idle import measure
from programs import Failure, Peer
from test_delivery import meet, whole

#: What a connection may need beside what its bounds name: interpreter, thread stacks, allocator.
SLACK_BYTES = 60 << 20


def events(peer: Peer, name: str) -> list[dict]:
    return [event for event in peer.ask("told")["events"] if event["event"] == name]


def test_a_flush_names_a_frozen_member_and_succeeds_once_it_goes_on(start: StartPeers) -> None:
    publisher, awake, frozen = start(3)
    meet([publisher], [awake, frozen])
    frozen.freeze()
    publisher.ask("publish", topic="t/x", count=100, sizes=[100])
    with pytest.raises(Failure, match=f"{frozen.node}") as refusal:
        publisher.ask("flush", timeout_s=60)
    assert refusal.value.name == "FlushError"
    assert refusal.value.answer["silent"] == [frozen.node]
    whole(awake.ask("wait_received", pattern="t/>", source=0, count=100), 0, 100)
    frozen.thaw()
    publisher.ask("flush", timeout_s=60)
    whole(frozen.ask("wait_received", pattern="t/>", source=0, count=100), 0, 100)


def test_a_frozen_member_that_lost_messages_is_named_for_that_once_it_goes_on(start: StartPeers) -> None:
    publisher, awake, frozen = start(
        3, cache_bytes=1 << 20, window_bytes=1 << 19, receive_window_bytes=1 << 20
    )
    meet([publisher], [awake, frozen])
    frozen.freeze()
    publisher.ask("publish", topic="t/x", count=4000, sizes=[5000])
    with pytest.raises(Failure) as refusal:
        publisher.ask("flush", timeout_s=60)
    assert refusal.value.answer["silent"] == [frozen.node]
    frozen.thaw()
    frozen.ask("wait_event", event="MessagesLost", timeout_s=60)
    with pytest.raises(Failure) as refusal:
        publisher.ask("flush", timeout_s=60)
    assert (refusal.value.answer["silent"], refusal.value.answer["lost_by"]) == ([], [frozen.node])
    publisher.ask("flush", timeout_s=60)


def test_a_flush_that_has_no_time_says_so(start: StartPeers) -> None:
    publisher, frozen = start(2)
    meet([publisher], [frozen])
    frozen.freeze()
    publisher.ask("publish", topic="t/x", count=10, sizes=[100])
    with pytest.raises(Failure, match=r"within 0\.1 s"):
        publisher.ask("flush", timeout_s=0.1)


def test_publishing_waits_while_a_subscriber_does_not_read_and_memory_stays_flat(start: StartPeers) -> None:
    (subscriber,) = start(1)
    (publisher,) = start(1, slow_after_s=60)
    subscriber.ask("subscribe", pattern="t/>", read=False, queue_bytes_max=1 << 20)
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    publisher.ask("publish_aside", source=0, topic="t/x", count=100_000, sizes=[10_000], for_s=60)
    bounds = (4 + 16 + 16 + 1) << 20
    before = [peer.ask("memory")["bytes"] for peer in (publisher, subscriber)]
    time.sleep(2.0)
    after = [peer.ask("memory")["bytes"] for peer in (publisher, subscriber)]
    for grown in (later - earlier for earlier, later in zip(before, after, strict=True)):
        assert grown < bounds + SLACK_BYTES
    with pytest.raises(Failure, match="did not end"):
        publisher.ask("wait_published", source=0, timeout_s=0.5)
    settled = [peer.ask("memory")["bytes"] for peer in (publisher, subscriber)]
    for earlier, later in zip(after, settled, strict=True):
        assert later - earlier < 4 << 20
    # And then everything goes on.
    subscriber.ask("read", pattern="t/>")
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=100_000), 0, 100_000)


def test_a_class_that_has_to_wait_does_not_delay_publishing_in_another(start: StartPeers) -> None:
    (subscriber,) = start(1)
    (publisher,) = start(1, slow_after_s=60)
    subscriber.ask("subscribe", pattern="t/>", read=False, queue_bytes_max=1 << 20)
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    publisher.ask("publish_aside", source=0, topic="t/x", count=5000, sizes=[10_000], for_s=60)
    with pytest.raises(Failure, match="did not end"):
        publisher.ask("wait_published", source=0, timeout_s=2.0)
    urgent = publisher.ask("publish", topic="t/x", count=100, sizes=[100], source=1, priority=8)
    assert urgent["longest_s"] < 30
    subscriber.ask("read", pattern="t/>")
    for source, count in ((1, 100), (0, 5000)):
        whole(subscriber.ask("wait_received", pattern="t/>", source=source, count=count), source, count)


@pytest.mark.parametrize("policy", ["drop", "error"])
def test_publishing_drops_or_fails_at_once_when_asked_to(start: StartPeers, policy: str) -> None:
    (subscriber,) = start(1)
    (publisher,) = start(1, slow_after_s=60, when_full=policy)
    subscriber.ask("subscribe", pattern="t/>", read=False, queue_bytes_max=1 << 20)
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    before = publisher.ask("memory")["bytes"]
    did = publisher.ask("publish", topic="t/x", count=30_000, sizes=[10_000])
    assert did["longest_s"] < 30
    lost = did["dropped"] if policy == "drop" else did["refused"]
    assert 0 < lost < 30_000
    assert did["dropped"] + did["refused"] == lost
    assert publisher.ask("memory")["bytes"] - before < (37 << 20) + SLACK_BYTES
    subscriber.ask("read", pattern="t/>")
    tally = subscriber.ask("wait_received", pattern="t/>", source=0, count=30_000 - lost)["received"]["0"]
    assert tally["skipped"] <= lost
    assert not [fault for fault in tally["faults"] if "missing" not in fault]


def test_a_reader_that_is_slow_but_reads_loses_nothing(start: StartPeers) -> None:
    # Reading all of it takes longer than anybody is waited for.
    publisher, subscriber = start(2, slow_after_s=2)
    subscriber.ask("subscribe", pattern="t/>", read=False, queue_bytes_max=1 << 20)
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    publisher.ask("publish_aside", source=0, topic="t/x", count=3000, sizes=[20_000])
    subscriber.ask("read", pattern="t/>", pause_s=0.001)
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=3000, timeout_s=60), 0, 3000)
    assert events(publisher, "MemberSlow") == []


def test_a_subscriber_that_does_not_read_is_left_behind_told_and_goes_on_in_order(start: StartPeers) -> None:
    publisher, reader, sleeper = start(
        3, cache_bytes=1 << 20, window_bytes=1 << 19, receive_window_bytes=1 << 20
    )
    reader.ask("subscribe", pattern="t/>")
    sleeper.ask("subscribe", pattern="t/>", read=False, queue_bytes_max=1 << 19)
    publisher.ask("wait_for_subscribers", topic="t/x", count=2)
    did = publisher.ask("publish", topic="t/x", count=4000, sizes=[5000])
    # It waited once, for slow_after_s, and then no more.
    assert 0.3 < did["longest_s"] < 30
    slow = publisher.ask("wait_event", event="MemberSlow")
    assert slow["node"] == sleeper.node
    assert (slow["host"], slow["pid"]) == (socket.gethostname(), sleeper.ask("node")["pid"])
    whole(reader.ask("wait_received", pattern="t/>", source=0, count=4000), 0, 4000)
    sleeper.ask("read", pattern="t/>")
    lost = sleeper.ask("wait_event", event="MessagesLost", timeout_s=60)
    assert lost["node"] == publisher.node
    assert lost["segments"] > 0
    assert lost["subscriptions"] == ["t/>"]
    publisher.ask("publish", topic="t/x", count=100, sizes=[5000], start=4000)
    tally = sleeper.ask("wait_next", pattern="t/>", source=0, number=4100)["received"]["0"]
    assert tally["skipped"] > 0
    assert tally["count"] + tally["skipped"] == 4100
    assert not [fault for fault in tally["faults"] if "missing" not in fault]
    assert events(reader, "MessagesLost") == []
    with pytest.raises(Failure, match=f"{sleeper.node} did not take messages in time") as refusal:
        publisher.ask("flush", timeout_s=60)
    assert refusal.value.answer["lost_by"] == [sleeper.node]
    publisher.ask("flush", timeout_s=60)


def test_a_publisher_told_to_waits_for_the_slowest_for_as_long_as_it_lives(
    start: StartPeers,
) -> None:
    # Whoever dies is noticed after two and a half seconds, not after twenty.
    reader, sleeper = start(2, heartbeat_s=0.5)
    (publisher,) = start(1, slow_after_s=0.1, when_slow="wait", heartbeat_s=0.5)
    reader.ask("subscribe", pattern="t/>")
    sleeper.ask("subscribe", pattern="t/>", read=False, queue_bytes_max=1 << 20)
    publisher.ask("wait_for_subscribers", topic="t/x", count=2)
    publisher.ask("publish_aside", source=0, topic="t/x", count=20_000, sizes=[10_000], for_s=60)
    with pytest.raises(Failure, match="did not end"):
        publisher.ask("wait_published", source=0, timeout_s=2)
    assert not events(publisher, "MemberSlow")
    sleeper.kill()
    # Its heartbeats end, and with them the wait.
    publisher.ask("wait_published", source=0, timeout_s=60)


def test_a_frozen_subscriber_stalls_a_publisher_once_and_not_for_long(start: StartPeers) -> None:
    publisher, awake, frozen = start(3)
    meet([publisher], [awake, frozen])
    frozen.freeze()
    did = publisher.ask("publish", topic="t/x", count=4000, sizes=[20_000])
    assert did["longest_s"] < 30
    assert publisher.ask("wait_event", event="MemberSlow")["node"] == frozen.node
    whole(awake.ask("wait_received", pattern="t/>", source=0, count=4000), 0, 4000)
    frozen.thaw()
    publisher.ask("publish", topic="t/x", count=10, sizes=[100], start=4000)
    tally = frozen.ask("wait_next", pattern="t/>", source=0, number=4010)["received"]["0"]
    assert not [fault for fault in tally["faults"] if "missing" not in fault]


@pytest.mark.parametrize("pause_s", [1.5, 4.0])
def test_a_subscriber_that_was_away_stalls_nobody_when_it_is_back(start: StartPeers, pause_s: float) -> None:
    slow_after_s = 1.0
    publisher, awake, frozen = start(3, slow_after_s=slow_after_s)
    meet([publisher], [awake, frozen])
    total_s = 0.5 + pause_s + 2.0
    publisher.ask(
        "publish_aside", source=0, topic="t/x", count=10**9, sizes=[10_000], every_s=1e-4, for_s=total_s
    )
    time.sleep(0.5)
    frozen.freeze()
    time.sleep(pause_s)
    frozen.thaw()
    did = publisher.ask("wait_published", source=0, timeout_s=60)
    # While it was away it was waited for once; what it found in its socket afterwards held nobody up.
    assert did["longest_s"] < slow_after_s + 2
    whole(awake.ask("wait_received", pattern="t/>", source=0, count=did["published"]), 0, did["published"])


def test_a_killed_member_stalls_nobody_and_is_declared_dead(start: StartPeers) -> None:
    publisher, awake, killed = start(3, heartbeat_s=0.4, missed_heartbeats_max=5)
    meet([publisher], [awake, killed])
    awake.ask("wait_event", event="MemberJoined", node=killed.node)
    killed.signal(signal.SIGKILL)
    did = publisher.ask("publish", topic="t/x", count=4000, sizes=[20_000])
    assert did["longest_s"] < 30
    whole(awake.ask("wait_received", pattern="t/>", source=0, count=4000), 0, 4000)
    for peer in (publisher, awake):
        left = peer.ask("wait_event", event="MemberLeft", node=killed.node, timeout_s=60)
        assert left["failed"] is True
    publisher.ask("flush", timeout_s=60)


def accounted_for(peer: Peer, total: int) -> tuple[int, int]:
    """Wait until a peer read or lost `total` messages; how many it read, and how many it lost."""
    deadline = time.monotonic() + 60
    while True:
        read = peer.ask("received", pattern="t/>")["received"]["0"]["count"]
        ranges = {(lost["first"], lost["last"]) for lost in events(peer, "MessagesLost")}
        lost = sum(last - first + 1 for first, last in ranges)
        if read + lost >= total or time.monotonic() > deadline:
            return read, lost
        time.sleep(0.05)


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside one that stays"])
def test_a_subscriber_that_was_taken_for_dead_is_told_every_number_it_missed(
    start: StartPeers, others: int
) -> None:
    # So long that the publisher is no longer new by then, and sends only what somebody wants.
    publisher, frozen, *awake = start(2 + others, heartbeat_s=0.5, missed_heartbeats_max=4)
    meet([publisher], [frozen, *awake])
    publisher.ask("publish", topic="t/x", count=100, sizes=[100])
    whole(frozen.ask("wait_received", pattern="t/>", source=0, count=100), 0, 100)
    frozen.freeze()
    publisher.ask("wait_event", event="MemberLeft", node=frozen.node, timeout_s=60)
    publisher.ask("publish", topic="t/x", count=40_000, sizes=[1000], start=100)
    frozen.thaw()
    # Nothing more is published: who returns learns by its welcome where the publisher is.
    read, lost = accounted_for(frozen, 40_100)
    assert read + lost == 40_100
    assert lost > 0
    assert read == 100 or others
    for peer in awake:
        whole(peer.ask("wait_received", pattern="t/>", source=0, count=40_100), 0, 40_100)


def test_a_reader_that_sleeps_for_long_still_hears_who_is_there(start: StartPeers) -> None:
    publisher, sleeper = start(2, heartbeat_s=0.2, missed_heartbeats_max=6)
    sleeper.ask("subscribe", pattern="t/>", read=False, queue_bytes_max=1 << 16)
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    publisher.ask("publish", topic="t/x", count=300, sizes=[1000])
    # More than twice as long as a member may be silent; that nothing happens cannot be waited for.
    time.sleep(3)
    assert events(sleeper, "MemberLeft") == []
    assert events(publisher, "MemberLeft") == []
    sleeper.ask("read", pattern="t/>")
    whole(sleeper.ask("wait_received", pattern="t/>", source=0, count=300), 0, 300)


def test_members_that_come_and_go_in_a_storm_disturb_nobody(start: StartPeers) -> None:
    publisher, subscriber = start(2, heartbeat_s=0.5)
    meet([publisher], [subscriber])
    publisher.ask("publish_aside", source=0, topic="t/x", count=10**9, sizes=[500], every_s=0.0002, for_s=4)
    for turn in range(3):
        visitors = start(3, heartbeat_s=0.5)
        for number, visitor in enumerate(visitors):
            visitor.ask("subscribe", pattern="t/>")
            if (turn + number) % 2:
                visitor.kill()
            else:
                visitor.ask("close")
    count = publisher.ask("wait_published", source=0)["published"]
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=count), 0, count)
    assert events(subscriber, "MessagesLost") == []


def test_closing_beside_a_frozen_member_takes_no_longer_than_the_linger(start: StartPeers) -> None:
    publisher, frozen = start(2)
    meet([publisher], [frozen])
    frozen.freeze()
    publisher.ask("publish", topic="t/x", count=10, sizes=[100])
    closed = publisher.ask("close", linger_s=1.0)
    assert closed["drained"] is False
    assert closed["seconds"] < 3


def test_an_idle_group_says_its_heartbeats_and_nothing_else() -> None:
    nodes, heartbeat_s = 15, 0.5
    cost = measure(nodes, seconds=4, heartbeat_s=heartbeat_s)
    assert cost.met_after_s < 10
    assert cost.sent_per_s <= 1.5 * nodes / heartbeat_s, cost
    assert cost.received_per_s <= cost.sent_per_s * nodes, cost
