"""Connections over TCP, inside one process."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal
from shoal.errors import ConfigError, LinkError


@pytest.fixture
def hub() -> Iterator[shoal.Bus]:
    with shoal.listen("tcp://127.0.0.1:0", heartbeat_s=0.2) as bus:
        yield bus


def url_of(bus: shoal.Bus) -> str:
    (listener,) = [link for link in bus.links if link.role == "listen"]
    return listener.url


def wait_until(met: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def test_messages_go_both_ways_and_a_fresh_publisher_loses_nothing(hub: shoal.Bus) -> None:
    with hub.subscribe("a/>") as heard, shoal.connect(url_of(hub)) as leaf:
        for number in range(1000):
            leaf.publish("a/b", number)
        assert [heard.receive(10).body for _ in range(1000)] == list(range(1000))
        with leaf.subscribe("c") as answers:
            assert hub.wait_for_subscribers("c", timeout_s=10)
            hub.publish("c", {"x": 1}, properties={"region": "EU"})
            message = answers.receive(10)
            assert (message.body, message.properties) == ({"x": 1}, {"region": "EU"})
            assert message.publisher == hub.publisher
        leaf.flush()


def test_requests_are_answered_over_tcp(hub: shoal.Bus) -> None:
    hub.subscribe("add", lambda message: hub.reply(message, sum(message.body)))
    with shoal.connect(url_of(hub)) as leaf:
        assert leaf.wait_for_subscribers("add", timeout_s=10)
        assert leaf.request("add", [1, 2]).body == 3


def test_answers_go_to_nobody_but_who_asked(hub: shoal.Bus) -> None:
    hub.subscribe("add", lambda message: hub.reply(message, sum(message.body)))
    with shoal.connect(url_of(hub)) as other, other.subscribe("a"):
        assert hub.wait_for_subscribers("a", timeout_s=10)
        for number in range(20):
            # Each asks for the first time, at once.
            with shoal.connect(url_of(hub)) as leaf:
                assert leaf.wait_for_subscribers("add", timeout_s=10)
                assert leaf.request("add", [1, number]).body == 1 + number
        (to_other,) = [link for link in hub.links if link.publisher == other.publisher]
        assert to_other.messages_sent == 0


def test_a_large_message_arrives_whole(hub: shoal.Bus) -> None:
    body = bytes(range(256)) * 40_000
    with hub.subscribe("large") as heard, shoal.connect(url_of(hub)) as leaf:
        leaf.publish("large", body)
        assert heard.receive(20).body == body


def test_links_tell_their_state_peer_address_and_round_trip(hub: shoal.Bus) -> None:
    with shoal.connect(url_of(hub), heartbeat_s=0.05) as leaf:
        wait_until(lambda: leaf.links[0].round_trip_s is not None)
        (link,) = leaf.links
        assert (link.role, link.state, link.node, link.url) == ("connect", "up", hub.node, url_of(hub))
        assert link.publisher == hub.publisher
        assert link.address == url_of(hub).removeprefix("tcp://")
        assert 0 < (link.round_trip_s or 0) < 5
        assert link.bytes_sent > 0 < link.bytes_received
        accepted, listener = hub.links
        assert (accepted.role, accepted.state, accepted.node) == ("accept", "up", leaf.node)
        assert (listener.role, listener.state, listener.connections) == ("listen", "listening", 1)
        assert leaf.members == [hub.node]
        assert str(leaf.config.port) in repr(leaf)
        assert repr(hub) == f"<Bus {url_of(hub)} domain={hub.config.domain!r} 1 member>"
    assert leaf.links == []


def test_events_tell_of_links_that_come_and_go(hub: shoal.Bus) -> None:
    leaf = shoal.connect(url_of(hub))
    node = leaf.node
    leaf.close()
    told = []
    for event in hub.events(timeout_s=10):
        told.append(event)
        if isinstance(event, shoal.LinkDown):
            break
    up, down = [event for event in told if isinstance(event, shoal.LinkUp | shoal.LinkDown)]
    assert isinstance(up, shoal.LinkUp)
    assert isinstance(down, shoal.LinkDown)
    assert (up.node, up.resumed, up.link) == (node, False, url_of(hub))
    assert (down.node, down.address) == (node, up.address)
    assert shoal.MemberLeft(node, False) in told


def test_leaves_of_one_listener_do_not_hear_each_other(hub: shoal.Bus) -> None:
    with (
        shoal.connect(url_of(hub)) as one,
        shoal.connect(url_of(hub)) as two,
        hub.subscribe("a") as here,
        two.subscribe("a") as there,
    ):
        assert one.members == [hub.node]
        assert one.wait_for_subscribers("a", timeout_s=10)
        one.publish("a", 1)
        one.flush()
        assert here.receive(10).body == 1
        assert there.pending == 0


def test_both_ends_may_connect_to_each_other_and_nothing_comes_twice() -> None:
    with shoal.listen("tcp://127.0.0.1:0") as one, shoal.listen("tcp://127.0.0.1:0") as two:
        threads = [
            threading.Thread(target=one.connect, args=(url_of(two),)),
            threading.Thread(target=two.connect, args=(url_of(one),)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        wait_until(lambda: one.members == [two.node] and two.members == [one.node])
        with two.subscribe("a") as heard:
            assert one.wait_for_subscribers("a", timeout_s=10)
            for number in range(100):
                one.publish("a", number)
            assert [heard.receive(10).body for _ in range(100)] == list(range(100))
            assert heard.pending == 0
        states = sorted(link.state for bus in (one, two) for link in bus.links if link.role == "connect")
        assert states in (["standby", "up"], ["up", "up"])


def test_a_node_may_listen_at_several_addresses_and_connect_to_others(hub: shoal.Bus) -> None:
    second = hub.listen("tcp://127.0.0.1:0")
    with shoal.connect(second) as leaf, shoal.listen("tcp://127.0.0.1:0") as other:
        leaf.connect(url_of(other))
        assert sorted(leaf.members) == sorted([hub.node, other.node])
        with hub.subscribe("a") as one, other.subscribe("a") as two:
            assert leaf.wait_for_subscribers("a", 2, timeout_s=10)
            leaf.publish("a", 1)
            assert (one.receive(10).body, two.receive(10).body) == (1, 1)


def test_another_domain_is_refused_by_name_at_both_ends(hub: shoal.Bus) -> None:
    with pytest.raises(LinkError, match=r"its domain is 'default', and ours 'desk'|\"default\".*\"desk\""):
        shoal.connect(url_of(hub), domain="desk")
    for event in hub.events(timeout_s=10):
        if isinstance(event, shoal.LinkRefused):
            assert "desk" in event.why
            assert event.address
            return
    pytest.fail("the listener was not told")


def test_nobody_there_is_no_error_and_the_link_comes_up_when_somebody_is() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with shoal.connect(f"tcp://127.0.0.1:{port}", reconnect_max_s=0.1) as leaf:
        (link,) = leaf.links
        assert link.state == "reconnecting"
        assert "refused" in link.why.lower()
        assert any(isinstance(event, shoal.LinkReconnecting) for event in leaf.events(timeout_s=1))
        with shoal.listen(f"tcp://127.0.0.1:{port}") as late:
            wait_until(lambda: leaf.members == [late.node])


def test_a_listener_that_is_full_turns_others_away_and_counts_them() -> None:
    with shoal.listen("tcp://127.0.0.1:0", connections_max=1) as hub, shoal.connect(url_of(hub)) as first:
        with shoal.connect(url_of(hub), reconnect_max_s=0.05) as second:
            wait_until(lambda: hub.links[-1].turned_away > 0)
            assert second.members == []
        assert first.members == [hub.node]


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01" + bytes(300),
        b"SHOAL/\x03\xff\xff",
        b"SHOAL/\x09\x00\x02\x01x",
    ],
)
def test_whatever_else_comes_to_the_port_is_refused_and_disturbs_nobody(
    hub: shoal.Bus, bytes_: bytes
) -> None:
    with hub.subscribe("a") as heard, shoal.connect(url_of(hub)) as leaf:
        address = url_of(hub).removeprefix("tcp://").split(":")
        with socket.create_connection((address[0], int(address[1]))) as stranger:
            stranger.sendall(bytes_)
            stranger.settimeout(10)
            while stranger.recv(1000):
                pass
        leaf.publish("a", 1)
        assert heard.receive(10).body == 1
        refused = [event for event in hub.events(timeout_s=0.2) if isinstance(event, shoal.LinkRefused)]
        assert len(refused) == 1


def test_links_belong_to_connections_over_tcp() -> None:
    with shoal.connect("inproc://here") as bus:
        assert bus.links == []
        with pytest.raises(ConfigError, match="inproc:// has no links with single programs"):
            bus.listen("tcp://127.0.0.1:0")
        with pytest.raises(ConfigError, match="inproc:// has no links with single programs"):
            bus.connect("tcp://127.0.0.1:1")
    with pytest.raises(ConfigError, match="cannot be listened at"):
        shoal.listen("norm://")


def test_an_address_that_is_taken_is_refused_with_its_name(hub: shoal.Bus) -> None:
    with pytest.raises(LinkError, match=rf"{url_of(hub)} cannot be listened at"):
        shoal.listen(url_of(hub))


def test_a_connection_that_nobody_has_any_more_is_closed(hub: shoal.Bus) -> None:
    leaf = shoal.connect(url_of(hub))
    node = leaf.node
    wait_until(lambda: hub.members == [node])
    del leaf
    wait_until(lambda: hub.members == [])


def test_a_closed_connection_has_no_thread_and_no_descriptor_left() -> None:
    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))

    with shoal.listen("tcp://127.0.0.1:0") as warm, shoal.connect(url_of(warm)):
        pass
    before = held()
    hub = shoal.listen("tcp://127.0.0.1:0")
    leaf = shoal.connect(url_of(hub))
    assert held() > before
    leaf.close()
    hub.close()
    # The kernel takes a thread away a moment after it ended; so it may with one of a test before this.
    wait_until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))


def test_asyncio_connects_and_listens_too() -> None:
    async def talk() -> list[int]:
        async with shoal.aio.listen("tcp://127.0.0.1:0") as hub:
            (listener,) = hub.links
            async with shoal.aio.connect(listener.url) as leaf:
                assert leaf.members == [hub.node]
                heard = hub.subscribe("a")
                await leaf.wait_for_subscribers("a")
                for number in range(10):
                    await leaf.publish("a", number)
                return [(await heard.receive(10)).body for _ in range(10)]

    assert asyncio.run(talk()) == list(range(10))


def test_asyncio_raises_what_the_other_end_says(hub: shoal.Bus) -> None:
    async def talk() -> None:
        async with shoal.aio.connect(url_of(hub), domain="desk"):
            pass

    with pytest.raises(LinkError, match="domain"):
        asyncio.run(talk())
