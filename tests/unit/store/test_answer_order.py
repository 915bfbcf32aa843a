"""Answers of one chain stand in the order of its requests, and none counts on rows that the log refused."""

from typing import Any, cast

import pytest
from desk import Client, Desk

from shoal._core import Log, Turn, read_rows
from shoal.bus.store_chain import Chain
from shoal.bus.store_protocol import queue_topic
from shoal.errors import ShoalError, StoreFullError
from shoal.testing import rows


class FullLog:
    """A log that has no room for rows."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append_turn(self, turn: Turn) -> Any:
        if turn.rows:
            raise StoreFullError("the disk is full")
        return self._log.append_turn(turn)


class TwoSenders:
    """Two threads of one client that publish at once: A to a topic, B to a queue that refuses it."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.client = desk, desk.client("one")
        self.client.ask("declare", queue="full", backlog_max_bytes=10)
        self.outcomes: dict[str, ShoalError | None] = {}
        self.live: list[str] = []
        self._rows = [self._row(1, "t", b"A"), self._row(2, queue_topic("full"), bytes(100))]
        self.chain = Chain(self.client.publisher, 5, self._take, lambda: 1 << 20, publish=self._publish)
        for number, name in ((1, "A"), (2, "B")):
            self.chain.wait(number, lambda error, name=name: self.outcomes.update({name: error}))  # type: ignore[misc]

    def _row(self, number: int, topic: str, body: bytes) -> tuple[bytes, int, int]:
        message = (number, self.desk.now.wall_us, rows.record(topic, body))
        return rows.encode(self.client.publisher, 5, [message]), number, number

    def _take(self) -> tuple[bytes, int, int] | None:
        return self._rows.pop(0) if self._rows else None

    def _publish(self, content: bytes, at: float, redelivered: bool) -> None:
        self.live += [message.topic for message in read_rows(content)]

    def send(self) -> None:
        """Requests go to the store, in one of its turns."""
        while (request := self.chain.poll_send()) is not None:
            self.client.tell(request.pop("op"), **request)

    def hear(self) -> list[str]:
        """The store's turn, and what the chain hears of it."""
        self.client.heard.clear()
        self.desk.run()
        answers = [body for body in self.client.heard if body["op"] in ("stored", "refused")]
        for body in answers:
            if body["op"] == "stored":
                self.chain.on_stored(body["through"])
            else:
                self.chain.on_refused(0.0, body)
        return [body["op"] for body in answers]


def test_a_refusal_does_not_overtake_the_word_about_the_request_before_it() -> None:
    senders = TwoSenders(Desk())
    senders.send()
    assert senders.hear() == ["stored", "refused"]
    assert senders.outcomes["A"] is None
    assert senders.outcomes["B"] is not None
    # It was published only when it was stored.
    assert senders.live == ["t"]


def test_nothing_is_acknowledged_that_the_log_had_no_room_for() -> None:
    desk = Desk()
    senders = TwoSenders(desk)
    desk.machine.log = cast(Log, FullLog(desk.log))
    while set(senders.outcomes) < {"A", "B"}:
        senders.send()
        assert senders.hear()
    assert desk.log.durable_end == 0
    assert isinstance(senders.outcomes["A"], StoreFullError)
    assert senders.outcomes["B"] is not None
    assert senders.live == []


def test_a_chain_gives_no_row_up_before_those_in_front_of_it_are_stored() -> None:
    senders = TwoSenders(Desk())
    first, second = senders.chain.poll_send(), senders.chain.poll_send()
    assert first is not None
    assert second is not None
    body = {"op": "refused", "error": "BACKLOG", "text": "no", "first": 2, "last": 2, "mark": 0}
    senders.chain.on_refused(0.0, body)
    assert senders.outcomes == {}
    again = [senders.chain.poll_send(), senders.chain.poll_send()]
    assert [request and request["rows"] for request in again] == [first["rows"], second["rows"]]


def repeat(desk: Desk, op: str, **fields: Any) -> dict[str, Any]:
    """Ask something, lose the link, and ask it again in another session, all in one turn; the last answer."""
    first = desk.client("first", publisher=9)
    first.tell(op, **fields)
    again = desk.clients["again"] = Client(desk, "again", 9)
    again._request({"op": "hello", "session": "again", "n": 1, "version": 1, "publisher": 9})
    again._request({"op": op, "session": "again", "n": 2, **fields})
    desk.run()
    return again.heard[-1]


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("op", ["send", "commit"])
def test_a_repetition_is_stored_only_if_the_rows_of_its_turn_are(op: str, is_full: bool) -> None:
    desk = Desk()
    if is_full:
        desk.machine.log = cast(Log, FullLog(desk.log))
    content = rows.encode(9, 5, [(1, desk.now.wall_us, rows.record("t", b"A"))])
    more = {"id": "x", "named": True} if op == "commit" else {}
    answer = repeat(desk, op, publisher=9, chain=5, after=0, rows=content, **more)
    if is_full:
        assert (answer["op"], answer["error"]) == ("refused" if op == "send" else "failed", "FULL")
        assert desk.log.durable_end == 0
    else:
        assert answer["through" if op == "send" else "end"] == desk.log.durable_end == 1


def test_a_repetition_of_a_stored_row_is_stored_though_its_turn_is_refused() -> None:
    desk = Desk()
    client = desk.client("one")
    client.send("t", b"A")
    desk.machine.log = cast(Log, FullLog(desk.log))
    content = rows.encode(client.publisher, 5, [(2, desk.now.wall_us, rows.record("t", b"B"))])
    client.tell("send", publisher=client.publisher, chain=5, after=1, rows=content)
    client.number = 0
    client.heard.clear()
    client.send("t", b"A")
    assert [(body["op"], body.get("mark", body.get("through"))) for body in client.heard] == [
        ("refused", 1),
        ("stored", 1),
    ]
