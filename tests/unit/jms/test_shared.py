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
    slow: list[tuple[shared.SharedNode, int]] = []
    threads = [
        threading.Thread(target=lambda: slow.append(shared.join_shared("inproc://slow", {})))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    other = shared.join_shared("inproc://other", {})
    assert opened == ["inproc://other"]
    go_on.set()
    for thread in threads:
        thread.join(30)
    # Both that asked for the same one got the same one.
    assert slow[0][0] is slow[1][0]
    assert opened == ["inproc://other", "inproc://slow"]
    for node, number in (other, *slow):
        assert not node.bus.closed
        node.leave(None, number)
    assert other[0].bus.closed
    assert slow[0][0].bus.closed


def test_no_connection_joins_a_node_that_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    node, number = shared.join_shared("inproc://closing", {})
    is_closing, go_on, close = threading.Event(), threading.Event(), node.bus.close

    def close_slowly(*arguments: Any) -> None:
        is_closing.set()
        assert go_on.wait(30)
        close(*arguments)

    monkeypatch.setattr(node.bus, "close", close_slowly)
    leaving = threading.Thread(target=node.leave, args=(None, number))
    leaving.start()
    assert is_closing.wait(30)
    joined: list[tuple[shared.SharedNode, int]] = []
    joining = threading.Thread(target=lambda: joined.append(shared.join_shared("inproc://closing", {})))
    joining.start()
    # It may need what the node that closes still has, as the directory of a store.
    joining.join(0.2)
    assert not joined
    go_on.set()
    for thread in (leaving, joining):
        thread.join(30)
    ((other, its),) = joined
    assert other is not node
    assert not other.bus.closed
    other.leave(None, its)
