"""NORM objects on real sockets: flow control, and bounds that hold whatever is not read or not wanted."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal._core import NormLink

GROUP = "239.192.74.215"
SENDER, RECEIVER = 1, 2
PATIENCE_S = 60.0


def link(node: int, port: int, **options: Any) -> NormLink:
    defaults: dict[str, Any] = {"interface": "lo", "lanes": 0, "sync": "all", "grtt_initial_s": 0.002}
    return NormLink(node, group=GROUP, port=port, seed=node, **defaults | options)


def wait_for(receiver: NormLink, sender: NormLink, wanted: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for kind, fields in receiver.receive(timeout_s=0.01):
            if kind == wanted:
                return fields
        sender.receive(timeout_s=0.0)
    pytest.fail(f"no {wanted} came")


@pytest.mark.parametrize("loss", [0.01, 0.05])
def test_all_of_many_small_objects_arrive_at_an_acker(port: int, loss: float) -> None:
    count = 20_000
    receiver = link(RECEIVER, port, drop_received=loss)
    sender = link(SENDER, port, ackers=[RECEIVER], drop_received=loss)
    sent = 0
    got: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(got) < count and time.monotonic() < deadline:
        while sent < count and sender.send_data(sent.to_bytes(4, "big")) is not None:
            sent += 1
        for kind, fields in receiver.receive(timeout_s=0.001):
            assert kind != "object_aborted"
            if kind == "data_received":
                got.add(int.from_bytes(fields["content"], "big"))
        sender.receive(timeout_s=0.0)
    assert got == set(range(count))
    assert sender.close(20.0), "everything was acknowledged"
    receiver.close(0.0)


def test_a_large_file_arrives_whole_with_and_without_ackers(port: int, tmp_path: Path) -> None:
    content = os.urandom(1 << 20) * 200
    (path := tmp_path / "file").write_bytes(content)
    for ackers in ([], [RECEIVER]):
        receiver = link(RECEIVER, port, files_directory=tmp_path)
        sender = link(SENDER, port, ackers=ackers, instance=1)
        sender.send_file(path)
        stored = wait_for(receiver, sender, "file_received")
        assert stored["path"].read_bytes() == content
        sender.close(0.0)
        receiver.close(0.0)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["1-1-0", "1-1-0-2", "file"]


def test_what_is_not_read_is_bounded_and_what_was_held_back_comes_later(port: int) -> None:
    receiver = link(RECEIVER, port)
    sender = link(SENDER, port, ackers=[RECEIVER], acker_patience_s=PATIENCE_S)
    megabyte, count = bytes(1 << 20), 150
    sent = 0
    while sent < count and receiver.stats()["no_room"] == 0:
        if sender.send_data(megabyte) is None:
            time.sleep(0.001)
        else:
            sent += 1
        sender.receive(timeout_s=0.0)
    assert receiver.stats()["no_room"] > 0, "nobody reads, and there is room for everything"
    waiting = [fields for kind, fields in receiver.receive(timeout_s=1.0) if kind == "data_received"]
    assert 60 <= len(waiting) <= 70, "64 MB, and what came at the same moment"
    deadline = time.monotonic() + PATIENCE_S
    while len(waiting) < count and time.monotonic() < deadline:
        sent += sent < count and sender.send_data(megabyte) is not None
        waiting += [fields for kind, fields in receiver.receive(timeout_s=0.001) if kind == "data_received"]
        sender.receive(timeout_s=0.0)
    assert sorted(fields["stream"] for fields in waiting) == list(range(count))
    assert sender.close(20.0)
    receiver.close(0.0)


def test_a_bus_takes_no_objects_of_strangers(port: int) -> None:
    url = f"norm://{GROUP}:{port}?interface=lo"
    with shoal.connect(url) as subscriber, shoal.connect(url) as publisher:
        subscription = subscriber.subscribe("a")
        strangers = [link(1000 + node, port, receive=False) for node in range(5)]
        for stranger in strangers:
            assert stranger.send_data(bytes(1 << 20)) is not None
        assert publisher.wait_for_subscribers("a", timeout_s=60)
        publisher.publish("a", b"message")
        message = subscription.receive(timeout_s=60)
        assert message is not None
        assert subscriber.stats()["unwanted"] > 0
        for stranger in strangers:
            stranger.close(0.0)
