"""Connections of one process share a node."""

import threading
from typing import Any

import pytest

import shoal
from shoal.jms import shared


def test_a_node_that_takes_long_to_open_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, opened = threading.Event(), []

    def connect(url: str, **options: Any) -> shoal.Bus:
        if url == "inproc://slow":
            assert go_on.wait(30)
        opened.append(url)
        return shoal.connect(url, **options)

    monkeypatch.setattr(shared, "connect", connect)
    slow: list[shared.SharedNode] = []
    threads = [
        threading.Thread(target=lambda: slow.append(shared.shared_node("inproc://slow", {})))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    other = shared.shared_node("inproc://other", {})
    assert opened == ["inproc://other"]
    go_on.set()
    for thread in threads:
        thread.join(30)
    # Both that asked for the same one got the same one.
    assert slow[0] is slow[1]
    assert opened == ["inproc://other", "inproc://slow"]
    for node in (other, slow[0]):
        node.leave(None, node.join())
        assert node.bus.closed
