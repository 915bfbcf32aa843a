"""What holds on links of every kind: TCP, TLS, WebSockets, and one written against the public interface."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tls_options import shown, trusting

import shoal
from shoal.link import Channel, Listening, Target, Transport


class Pair(Channel):
    """Half of a connection inside this process."""

    def __init__(self, into: "queue.Queue[bytes]", out: "queue.Queue[bytes]", lost: threading.Event) -> None:
        self.address = "here"
        self._into, self._out, self._lost = into, out, lost

    def send(self, data: memoryview) -> None:
        if self._lost.is_set():
            raise OSError("the wire was cut")
        self._out.put(bytes(data))

    def receive(self) -> bytes:
        while True:
            try:
                return self._into.get(timeout=0.02)
            except queue.Empty:
                if self._lost.is_set():
                    raise OSError("the wire was cut") from None

    def close(self) -> None:
        self._out.put(b"")
        self._into.put(b"")


class Wires(Transport, Listening):
    """Connects two connections of this process; its wires can be cut."""

    url = "wires://here"
    doors: "queue.Queue[Channel | None]" = queue.Queue()
    lost = threading.Event()

    def __init__(self, config: object) -> None:
        pass

    def connect(self, target: Target, timeout_s: float) -> Channel:
        assert target.host == "here"
        one: queue.Queue[bytes] = queue.Queue(16)
        two: queue.Queue[bytes] = queue.Queue(16)
        lost = Wires.lost = threading.Event()
        Wires.doors.put(Pair(one, two, lost))
        return Pair(two, one, lost)

    def listen(self, target: Target) -> Listening:
        return self

    def accept(self) -> Channel | None:
        return Wires.doors.get()

    def close(self) -> None:
        Wires.doors.put(None)


shoal.link.register("wires", Wires)
SCHEMES = ["tcp", "tls", "ws", "wss", "wires"]


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ends(scheme: str, certs: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the end that listens, and of the one that connects."""
    if scheme not in ("tls", "wss"):
        return {}, {}
    return shown(certs, "localhost") | trusting(certs), shown(certs, "leaf") | trusting(certs)


@pytest.fixture
def hub(scheme: str, ends: tuple[dict[str, Any], dict[str, Any]]) -> Iterator[shoal.Bus]:
    place = "here" if scheme == "wires" else "127.0.0.1:0"
    with shoal.listen(f"{scheme}://{place}", heartbeat_s=0.2, **ends[0]) as bus:
        yield bus


@pytest.fixture
def leaf(hub: shoal.Bus, ends: tuple[dict[str, Any], dict[str, Any]]) -> Iterator[shoal.Bus]:
    with shoal.connect(hub.links[-1].url, reconnect_max_s=0.1, heartbeat_s=0.2, **ends[1]) as bus:
        yield bus


def wait_until(met: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def test_messages_go_both_ways(hub: shoal.Bus, leaf: shoal.Bus) -> None:
    with hub.subscribe("a/>") as heard, leaf.subscribe("b") as answers:
        assert leaf.wait_for_subscribers("a/b", timeout_s=10)
        assert hub.wait_for_subscribers("b", timeout_s=10)
        for number in range(1000):
            leaf.publish("a/b", number)
            hub.publish("b", -number)
        assert [heard.receive(10).body for _ in range(1000)] == list(range(1000))
        assert [answers.receive(10).body for _ in range(1000)] == [-number for number in range(1000)]
        leaf.flush(timeout_s=10)


def test_much_arrives_whole_while_its_reader_is_slow_to_begin(hub: shoal.Bus, leaf: shoal.Bus) -> None:
    body = bytes(range(256)) * 20_000
    with hub.subscribe("large", queue_bytes_max=1 << 20) as heard:
        assert leaf.wait_for_subscribers("large", timeout_s=10)
        sender = threading.Thread(target=lambda: [leaf.publish("large", body) for _ in range(4)])
        sender.start()
        time.sleep(0.1)
        assert all(heard.receive(20).body == body for _ in range(4))
        sender.join(20)


def test_links_tell_how_they_are(hub: shoal.Bus, leaf: shoal.Bus, scheme: str) -> None:
    wait_until(lambda: bool(leaf.links) and leaf.links[0].round_trip_s is not None)
    (link,) = leaf.links
    assert (link.role, link.state, link.node) == ("connect", "up", hub.node)
    assert link.url.startswith(f"{scheme}://")
    assert link.bytes_sent > 0 < link.bytes_received
    accepted, listener = hub.links
    assert (accepted.role, accepted.state, accepted.node) == ("accept", "up", leaf.node)
    assert (listener.role, listener.connections) == ("listen", 1)
    names = ("localhost", "leaf") if scheme in ("tls", "wss") else ("", "")
    assert (link.identity, accepted.identity) == names


def test_a_goodbye_is_heard_and_nothing_is_left_behind(hub: shoal.Bus, leaf: shoal.Bus) -> None:
    node = leaf.node
    wait_until(lambda: hub.members == [node])
    leaf.close()
    wait_until(lambda: hub.members == [])
    for event in hub.events(timeout_s=5):
        if isinstance(event, shoal.MemberLeft):
            assert not event.failed
            break
    else:
        pytest.fail("nobody left")
    wait_until(lambda: hub.links[-1].connections == 0)
    wait_until(lambda: not any(thread.name.startswith("shoal-link-") for thread in threading.enumerate()))


def test_another_domain_is_refused_by_name(
    hub: shoal.Bus, ends: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    with pytest.raises(shoal.errors.LinkRefusedError, match="desk"):
        shoal.connect(hub.links[-1].url, domain="desk", **ends[1])


def test_a_full_listener_turns_others_away(scheme: str, ends: tuple[dict[str, Any], dict[str, Any]]) -> None:
    place = "here" if scheme == "wires" else "127.0.0.1:0"
    with shoal.listen(f"{scheme}://{place}", connections_max=1, **ends[0]) as hub:
        url = hub.links[-1].url
        with shoal.connect(url, **ends[1]), shoal.connect(url, reconnect_max_s=0.05, **ends[1]) as second:
            wait_until(lambda: hub.links[-1].turned_away > 0)
            assert second.members == []


def test_a_wire_that_is_cut_loses_and_doubles_nothing(certs: Path) -> None:
    """The session above a transport goes on where its wire was cut, however often."""
    with (
        shoal.listen("wires://here") as hub,
        hub.subscribe("a") as heard,
        shoal.connect("wires://here", reconnect_max_s=0.05) as leaf,
    ):
        assert leaf.wait_for_subscribers("a", timeout_s=10)
        for number in range(2000):
            if number % 200 == 100:
                Wires.lost.set()
            leaf.publish("a", number)
        assert [heard.receive(10).body for _ in range(2000)] == list(range(2000))
        told = [event for event in leaf.events(timeout_s=0.2) if isinstance(event, shoal.LinkDown)]
        assert told
        assert "the wire was cut" in {event.why for event in told}
        assert not [event for event in hub.events(timeout_s=0.1) if isinstance(event, shoal.MessagesLost)]


def test_what_a_transport_raises_is_told_and_tried_again() -> None:
    class Broken(Transport):
        attempts = 0

        def __init__(self, config: object) -> None:
            pass

        def connect(self, target: Target, timeout_s: float) -> Channel:
            Broken.attempts += 1
            raise ZeroDivisionError("no such wire")

    shoal.link.register("broken", Broken)
    with shoal.connect("broken://x", reconnect_max_s=0.05) as bus:
        (link,) = bus.links
        assert (link.state, link.why) == ("reconnecting", "no such wire")
        wait_until(lambda: Broken.attempts > 2)
        with pytest.raises(shoal.errors.ConfigError, match="cannot be listened at"):
            bus.listen("broken://x")


@pytest.mark.parametrize("scheme", ["tcp", "norm", "Wires", "a b", ""])
def test_schemes_of_ours_and_nonsense_cannot_be_registered(scheme: str) -> None:
    with pytest.raises(shoal.errors.ConfigError, match="scheme is"):
        shoal.link.register(scheme, Wires)


def test_one_connection_may_have_links_of_several_kinds(certs: Path) -> None:
    with shoal.listen("tcp://127.0.0.1:0", **shown(certs, "localhost"), **trusting(certs)) as hub:
        urls = [hub.links[-1].url, hub.listen("wss://127.0.0.1:0"), hub.listen("tls://127.0.0.1:0")]
        leaves = [
            shoal.connect(url, **(trusting(certs) | shown(certs, "leaf") if "s:" in url else {}))
            for url in urls
        ]
        wait_until(lambda: len(hub.members) == 3)
        for leaf in leaves:
            leaf.close()


def test_a_message_longer_than_the_other_end_takes_raises_and_its_link_stays(
    scheme: str, ends: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    place = "here" if scheme == "wires" else "127.0.0.1:0"
    with (
        shoal.listen(f"{scheme}://{place}", message_bytes_max=100_000, **ends[0]) as hub,
        hub.subscribe("a") as heard,
        shoal.connect(hub.links[-1].url, reconnect_max_s=0.1, **ends[1]) as leaf,
    ):
        assert leaf.wait_for_subscribers("a", timeout_s=30)
        with pytest.raises(shoal.errors.MessageTooLongError, match="100000 at the other end"):
            leaf.publish("a", bytes(1_000_000))
        leaf.publish("a", 1)
        assert heard.receive(30).body == 1
        assert not [event for event in leaf.events(timeout_s=0.0) if isinstance(event, shoal.LinkDown)]


def test_events_name_the_link_its_other_end_and_what_happens_next(
    hub: shoal.Bus, leaf: shoal.Bus, scheme: str
) -> None:
    url = hub.links[-1].url
    wait_until(lambda: hub.members == [leaf.node])
    told_hub, told_leaf = hub.events(timeout_s=60), leaf.events(timeout_s=60)
    up = next(event for event in told_leaf if isinstance(event, shoal.LinkUp))
    assert (up.link, up.node, up.resumed) == (url, hub.node, False)
    accepted = next(event for event in told_hub if isinstance(event, shoal.LinkUp))
    assert (accepted.link, accepted.node) == (url, leaf.node)
    assert up.address == ("here" if scheme == "wires" else url.partition("://")[2])
    assert accepted.address
    node = hub.node
    hub.close()
    down = next(event for event in told_leaf if isinstance(event, shoal.LinkDown))
    assert (down.link, down.node, down.address, down.left) == (url, node, up.address, True)
    again = next(event for event in told_leaf if isinstance(event, shoal.LinkReconnecting))
    assert again.link == url
    assert again.why == "the other end closed its connection to the domain"
    assert again.delay_s <= 0.1


def test_a_link_that_is_given_up_says_goodbye_and_is_not_made_again(hub: shoal.Bus, leaf: shoal.Bus) -> None:
    url, node = hub.links[-1].url, leaf.node
    wait_until(lambda: hub.members == [node])
    with pytest.raises(shoal.errors.ConfigError, match=f"there is {url}"):
        leaf.disconnect("tcp://127.0.0.1:1")
    leaf.disconnect(url)
    wait_until(lambda: hub.members == [] == leaf.members and leaf.links == [])
    left = next(event for event in hub.events(timeout_s=60) if isinstance(event, shoal.MemberLeft))
    assert (left.node, left.failed) == (node, False)
    leaf.connect(url)
    wait_until(lambda: hub.members == [node])
    hub.disconnect(url)
    assert [link for link in hub.links if link.role == "listen"] == []
    wait_until(lambda: hub.members == [])


def test_a_group_that_was_joined_can_be_left() -> None:
    url = "norm://239.192.74.177:7977?interface=lo"
    with shoal.listen("tcp://127.0.0.1:0") as bus, shoal.connect(url) as other:
        bus.connect(url)
        wait_until(lambda: bus.members == [other.node])
        bus.disconnect(url)
        wait_until(lambda: other.members == [])
        assert [link.role for link in bus.links] == ["listen"]
        bus.connect(url)
        wait_until(lambda: len(other.members) == 1)


def test_a_link_without_repair_has_no_others_beside_it() -> None:
    refuses = pytest.raises(shoal.errors.ConfigError, match="udp:// repairs nothing")
    with shoal.listen("tcp://127.0.0.1:0") as bus, refuses:
        bus.connect("udp://239.192.74.177:7977")
    with shoal.connect("udp://239.192.74.177:7977?interface=lo") as bus:
        with pytest.raises(shoal.errors.ConfigError, match="cannot join a group beside it"):
            bus.connect("norm://239.192.74.177:7978")
        with pytest.raises(shoal.errors.ConfigError, match="no links with single programs"):
            bus.connect("tcp://127.0.0.1:1")
