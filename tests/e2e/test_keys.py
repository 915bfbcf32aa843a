"""Connections with a key: members that share it, members that do not, and strangers who forge datagrams."""

import secrets
import socket
import time
from pathlib import Path

import pytest

import shoal
import shoal.norm
from shoal.config.keys import new_key


def meet(publisher: shoal.Bus, topic: str = "t/x") -> None:
    publisher.wait_for_subscribers(topic, 1, timeout_s=60)


def why_unreadable(bus: shoal.Bus, for_s: float = 10.0) -> str:
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        for event in bus.events(timeout_s=0.2):
            if isinstance(event, shoal.Unreadable):
                return event.why
    return ""


def test_members_with_one_key_hear_each_other(url: str) -> None:
    key = new_key()
    with shoal.connect(url, key=key) as publisher, shoal.connect(url, key=key) as subscriber:
        messages = subscriber.subscribe("t/>")
        meet(publisher)
        for number in range(2_000):
            publisher.publish("t/x", number)
        publisher.flush(60)
        read = [messages.receive(timeout_s=60).body for _ in range(2_000)]
        assert read == list(range(2_000))


def test_a_wrong_key_says_so_in_one_line_at_both_ends(url: str) -> None:
    with shoal.connect(url, key=new_key()) as one, shoal.connect(url, key=new_key()) as other:
        for bus in (one, other):
            why = why_unreadable(bus)
            assert "another key" in why
            assert "\n" not in why
        assert not one.members
        assert not other.members


def test_with_and_without_a_key_nobody_hears_the_other_and_both_say_so(url: str) -> None:
    with shoal.connect(url, key=new_key()) as one, shoal.connect(url) as other:
        assert "has no key" in why_unreadable(one)
        assert "has a key" in why_unreadable(other)
        assert not one.members
        assert not other.members


def test_keys_change_without_stopping(url: str, tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    path = tmp_path / "group.key"
    path.touch(0o600)
    path.write_text(f"{old}\n")
    with (
        shoal.connect(url, key_file=str(path)) as publisher,
        shoal.connect(url, key_file=str(path)) as subscriber,
    ):
        messages = subscriber.subscribe("t/>")
        meet(publisher)
        sent = 0
        for keys in ([old], [old, new], [new, old], [new]):
            path.write_text("\n".join(keys))
            for bus in (subscriber, publisher):
                bus.reload_keys()
                publisher.publish("t/x", sent)
                sent += 1
                publisher.flush(60)
        assert [messages.receive(timeout_s=60).body for _ in range(sent)] == list(range(sent))


def test_forged_datagrams_have_no_effect(url: str) -> None:
    key = new_key()
    with shoal.connect(url, key=key) as publisher, shoal.connect(url, key=key) as subscriber:
        messages = subscriber.subscribe("t/>")
        meet(publisher)
        config = publisher.config
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for number in range(200):
                publisher.publish("t/x", number)
                # Goodbyes and refusals in the publisher's name, and noise that looks sealed.
                for flavor in (2, 3):
                    forged = bytes([0x13, 4, 0, number]) + publisher.node.to_bytes(4, "big") + bytes(4)
                    stranger.sendto(forged + bytes([flavor, 0, 0, 0]), (config.group_address(), config.port))
                stranger.sendto(bytes([0xF0]) + bytes(99), (config.group_address(), config.port))
        publisher.flush(60)
        assert [messages.receive(timeout_s=60).body for _ in range(200)] == list(range(200))


def test_a_session_with_a_key_is_not_heard_by_one_without(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"interface": "lo", "port": port, "group": "239.192.74.203"}
    key = new_key()
    with (
        shoal.norm.Session(key=key, **options) as sender,
        shoal.norm.Session(key=key, **options) as member,
        shoal.norm.Session(**options) as stranger,
    ):
        sender.send_data(b"secret", info=b"name")
        received = [
            event for event in member.events(timeout_s=3) if isinstance(event, shoal.norm.DataReceived)
        ]
        assert [event.content for event in received] == [b"secret"]
        assert stranger.receive(timeout_s=0.5) is None
        assert "has a key" in caplog.text


def test_a_session_changes_its_keys_without_stopping(port: int, tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    path = tmp_path / "group.key"
    path.touch(0o600)
    path.write_text(f"{old}\n")
    options = {"interface": "lo", "port": port, "group": "239.192.74.204", "key_file": str(path)}
    with shoal.norm.Session(**options) as sender, shoal.norm.Session(**options) as receiver:
        for number, keys in enumerate(([old], [old, new], [new, old], [new])):
            path.write_text("\n".join(keys))
            for session in (receiver, sender):
                session.reload_keys()
            content = b"%d" % number
            sender.send_data(content)
            received = (
                event.content
                for event in receiver.events(timeout_s=10)
                if isinstance(event, shoal.norm.DataReceived)
            )
            assert next(received) == content
    with (
        shoal.norm.Session(interface="lo", port=port, group="239.192.74.204") as without,
        pytest.raises(shoal.ConfigError, match="key_file"),
    ):
        without.reload_keys()


@pytest.mark.parametrize("key", [None, new_key()], ids=["without a key", "with a key"])
def test_noise_at_the_group_is_nobody(url: str, key: str | None) -> None:
    random = secrets.SystemRandom()
    with shoal.connect(url, key=key) as bus:
        group = (bus.config.group_address(), bus.config.port)
        counter = "datagrams_received" if key is None else "authentication"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for number in range(2_000):
                # Half of it begins as what is sealed does.
                noise = bytes([0xF0 if number % 2 else random.randrange(256)]) + random.randbytes(99)
                stranger.sendto(noise, group)
        deadline = time.monotonic() + 10
        while bus.stats()[counter] < 1_000:
            assert time.monotonic() < deadline, bus.stats()
            time.sleep(0.01)
        assert why_unreadable(bus, for_s=0.5) == ""
