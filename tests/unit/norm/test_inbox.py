"""Events reach whoever takes them, and whoever waits for what they tell; nobody takes them from others."""

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import ClosedError, FullError
from shoal.norm.events import CommandReceived, DataReceived, FileFailed, FileReceived, WatermarkDone
from shoal.norm.inbox import BACKLOG_BYTES_MAX, Inbox
from shoal.norm.ledger import Ledger

Arrival = tuple[str, dict[str, Any]]
OBJECT = {"sender": 7, "instance": 1, "stream": 3}


class FakeLink:
    """Gives what it is told to."""

    def __init__(self) -> None:
        self.arrivals: queue.Queue[Arrival | None] = queue.Queue()

    def receive(self, timeout_s: float | None) -> list[Arrival]:
        try:
            arrival = self.arrivals.get(timeout=timeout_s or None, block=timeout_s != 0.0)
        except queue.Empty:
            return []
        if arrival is None:
            self.arrivals.put(None)
            raise ClosedError("closed")
        return [arrival]


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def inbox(link: FakeLink, ledger: Ledger) -> Inbox:
    return Inbox(link.receive, ledger)


def said(content: bytes) -> Arrival:
    return "command_received", {"sender": 7, "content": content}


def watermark(number: int) -> Arrival:
    return "watermark_done", {"stream": number, "acked": [1], "silent": []}


def test_events_are_taken_in_order(link: FakeLink, inbox: Inbox) -> None:
    for content in (b"one", b"two"):
        link.arrivals.put(said(content))
    taken = [inbox.take(1.0), inbox.take(1.0)]
    assert taken == [CommandReceived(sender=7, content=content) for content in (b"one", b"two")]


def test_nothing_in_time_is_none(inbox: Inbox) -> None:
    assert inbox.take(0.0) is None
    assert inbox.take(0.01) is None


def test_what_is_here_already_is_found_without_waiting(link: FakeLink, inbox: Inbox) -> None:
    link.arrivals.put(said(b"here"))
    assert inbox.take(0.0) is not None


def test_what_was_waited_for_can_still_be_taken(link: FakeLink, inbox: Inbox, ledger: Ledger) -> None:
    ledger.expect({3})
    for arrival in (said(b"before"), watermark(3)):
        link.arrivals.put(arrival)
    assert inbox.wait_until(lambda: ledger.outcomes() is not None, 1.0)
    assert ledger.outcomes() == [WatermarkDone(object=3, acked=(1,), silent=())]
    assert isinstance(inbox.take(0.0), CommandReceived)
    assert isinstance(inbox.take(0.0), WatermarkDone)


def test_somebody_waits_while_another_thread_takes(link: FakeLink, inbox: Inbox, ledger: Ledger) -> None:
    ledger.expect({3})
    taken: list[object] = []
    taking = threading.Thread(target=lambda: taken.append(inbox.take(None)))
    taking.start()
    link.arrivals.put(watermark(3))
    assert inbox.wait_until(lambda: ledger.outcomes() is not None, 10.0)
    taking.join(10.0)
    assert [type(event) for event in taken] == [WatermarkDone]


def test_the_end_is_told_to_everybody_after_what_came_before(link: FakeLink, inbox: Inbox) -> None:
    link.arrivals.put(said(b"last"))
    link.arrivals.put(None)
    assert inbox.take(1.0) is not None
    with pytest.raises(ClosedError):
        inbox.take(1.0)
    with pytest.raises(ClosedError):
        inbox.wait_until(lambda: False, 1.0)


def test_what_nobody_takes_is_bounded(link: FakeLink, inbox: Inbox) -> None:
    for _ in range(3):
        link.arrivals.put(said(bytes(BACKLOG_BYTES_MAX // 2)))
    with pytest.raises(FullError, match="receive them in another thread"):
        inbox.wait_until(lambda: False, 10.0)
    assert inbox.take(0.0) is not None


def test_a_complete_object_comes_with_its_info(ledger: Ledger) -> None:
    ledger.enter("info", OBJECT | {"content": b"name"})
    data = ledger.enter("data_received", OBJECT | {"content": b"x"})
    assert isinstance(data, DataReceived)
    assert (data.object, data.content, data.info) == (3, b"x", b"name")
    again = ledger.enter("data_received", OBJECT | {"content": b"x"})
    assert isinstance(again, DataReceived)
    assert again.info == b"", "an object of the same number is another one"


@pytest.mark.parametrize("end", [("object_aborted", "expired"), ("sender_gone", "idle")])
def test_the_info_of_what_was_given_up_is_forgotten(ledger: Ledger, end: tuple[str, str]) -> None:
    kind, reason = end
    ledger.enter("info", OBJECT | {"content": b"name"})
    about = OBJECT if kind == "object_aborted" else {"sender": 7, "instance": 1}
    ledger.enter(kind, about | {"reason": reason})
    data = ledger.enter("data_received", OBJECT | {"content": b"x"})
    assert isinstance(data, DataReceived)
    assert data.info == b""


def test_a_received_file_says_where_it_is(ledger: Ledger) -> None:
    told = ledger.enter("file_received", OBJECT | {"bytes": 9, "path": "inbox/elsewhere"})
    assert told == FileReceived(
        sender=7, instance=1, object=3, bytes=9, path=Path("inbox/elsewhere"), info=b""
    )


def test_a_failed_file_is_ours_or_of_somebody(ledger: Ledger) -> None:
    ours = ledger.enter("file_failed", {"stream": 3, "sending": True, "why": "gone"})
    assert ours == FileFailed(object=3, why="gone")
    other = ledger.enter("file_failed", OBJECT | {"sending": False, "why": "full"})
    assert other == FileFailed(object=3, why="full", sender=7, instance=1)
