"""No body stops a store or a client: the short run of `make fuzz`."""

import logging
from pathlib import Path

import pytest
from doors import Doors

import shoal
from shoal._core import Message, RawBody
from shoal.bus.memory_owner import OWNER
from shoal.bus.store_protocol import HERE, WHO, body_of, requests_topic
from shoal.errors import MessageFormatError

#: `{"$shoal": "dict", "value": 7}`, and an object whose detail is no UTF-8: no encoder makes them.
HOSTILE = (
    RawBody(8, b"\x82\xa6$shoal\xa4dict\xa5value\x07"),
    RawBody(8, b"\x82\xa6$shoal\xa7ndarray\xa5value\x07"),
    RawBody(8, b"\x07", b"\xff\xfe"),
    RawBody(7, b"abc", b""),
    RawBody(7, b"abc", b"C\x02<f\x7f"),
    RawBody(6, b"not arrow"),
    RawBody(3, b"\x81"),
    RawBody(3, b""),
    RawBody(2, b"\xff"),
)


@pytest.mark.parametrize("body", HOSTILE)
def test_a_body_that_cannot_be_read_raises_one_error(body: RawBody) -> None:
    message = Message("t", body)
    with pytest.raises(MessageFormatError, match="cannot be read"):
        _ = message.body
    assert body_of(message) is None


@pytest.mark.parametrize("seed", range(4))
def test_no_body_stops_a_door(seed: int) -> None:
    logging.disable(logging.CRITICAL)
    try:
        doors = Doors(seed)
        doors.run(1500)
    finally:
        logging.disable(logging.NOTSET)
    assert doors.taken > 500
    assert doors.unreadable > 50


def test_a_store_and_its_clients_live_on_after_bodies_of_any_kind(tmp_path: Path) -> None:
    with (
        shoal.connect("inproc://doors", store=tmp_path / "data") as owner,
        shoal.connect("inproc://doors") as client,
        shoal.connect("inproc://doors") as rogue,
    ):
        client.queue("orders").send("before")
        store = f"{owner._connection.store.log.store_id:016x}"
        for topic in (requests_topic(store), HERE, WHO, OWNER):
            for body in (*HOSTILE, {}, {"op": ["x"], "session": "a"}, [1], 7, "x", b"x", None):
                rogue.publish(topic, body)
        client.queue("orders").send("after")
        got = [client.queue("orders").receive(5) for _ in range(2)]
        assert [message and message.body for message in got] == ["before", "after"]
        assert owner._connection.store.failure is None
        assert owner._connection.store.status()["unreadable"] >= len(HOSTILE)
