import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Message
from shoal.gateway.content import body_of, frame_of, head_of, options_of
from shoal.gateway.frames import Frame, FrameError, FrameReader
from shoal.types import Byte, Float, Int, QueueName, Short

names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9.-]{0,10}", fullmatch=True).filter(
    lambda name: not name.upper().startswith("JMS")
)


def message_of(message: Message, **options: object) -> Frame:
    reader = FrameReader(1 << 20)
    reader.feed(frame_of(message, subscription=head_of("s:1"), **options))
    frame = reader.poll_frame()
    assert frame is not None
    assert reader.buffered == 0
    return frame


def test_a_message_has_its_fields_as_headers():
    frame = message_of(
        Message(
            "prices/ACME",
            {"bid": 10.25},
            properties={"region": "EU", "count": Int(3), "last": True, "bid": 1.5, "n": 7},
            priority=7,
            ttl_s=60,
            correlation_id="c:1",
            reply_to=QueueName("answers"),
            type="quote",
            persistent=True,
            timestamp=1000.0,
            publisher=1,
            chain=5,
            number=9,
            redelivered=True,
        ),
        ack="7",
        dropped=3,
    )
    assert frame.command == "MESSAGE"
    assert frame.body == b'{"bid":10.25}'
    assert frame.headers == {
        "subscription": "s:1",
        "message-id": "ID:0000000000000001-5-9",
        "destination": "/topic/prices/ACME",
        "ack": "7",
        "shoal-dropped": "3",
        "content-type": "application/json",
        "content-length": "13",
        "persistent": "true",
        "priority": "7",
        "timestamp": "1000000",
        "expires": "1060000",
        "correlation-id": "c:1",
        "reply-to": "/queue/answers",
        "type": "quote",
        "redelivered": "true",
        "region": "EU",
        "count": "3",
        "last": "true",
        "bid": "1.5",
        "n": "7",
        "shoal-types": "count=i,last=b,bid=d,n=l",
    }


@pytest.mark.parametrize(
    ("body", "kind", "content"),
    [
        (None, None, b""),
        (b"\0\1", "application/octet-stream", b"\0\1"),
        ("h\u00e9", "text/plain", "h\u00e9".encode()),
        ([1, {"a": b"\0"}], "application/json", b'[1,{"a":{"$base64":"AA=="}}]'),
        (math.nan, "application/json", b'{"$number":"nan"}'),
        (True, "application/json", b"true"),
    ],
)
def test_a_body_has_a_content_type(body, kind, content):
    frame = message_of(Message("a", body))
    assert (frame.headers.get("content-type"), frame.body) == (kind, content)


def test_a_frame_becomes_options_of_the_bus():
    headers = {
        "destination": "/queue/a",
        "persistent": "true",
        "priority": "9",
        "expires": "61000",
        "correlation-id": "c",
        "type": "t",
        "shoal-delay": "1500",
        "shoal-types": "bid=d,count=i,y=y,h=h,f=f,b=b,l=l",
        "bid": "1.5",
        "count": "3",
        "y": "-1",
        "h": "2",
        "f": "0.5",
        "b": "true",
        "l": "9",
        "x-trace": "abc",
    }
    options = options_of(headers, 1.0)
    assert options == {
        "persistent": True,
        "priority": 9,
        "ttl_s": 60.0,
        "correlation_id": "c",
        "type": "t",
        "delivery_delay_s": 1.5,
        "properties": {
            "bid": 1.5,
            "count": Int(3),
            "y": Byte(-1),
            "h": Short(2),
            "f": Float(0.5),
            "b": True,
            "l": 9,
            "x_HYPHEN_trace": "abc",
        },
    }
    assert type(options["properties"]["count"]) is Int


def test_an_expired_message_is_not_sent():
    assert options_of({"expires": "1000"}, 2.0) is None
    assert options_of({"expires": "0"}, 2.0) == {"persistent": False, "properties": None}


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"persistent": "yes"}, "persistent"),
        ({"priority": "10"}, "priority"),
        ({"priority": "\u0661"}, "priority"),
        ({"expires": "soon"}, "expires"),
        ({"shoal-delay": "-1"}, "shoal-delay"),
        ({"a": "x", "shoal-types": "a=i"}, "'a'"),
        ({"a": "999", "shoal-types": "a=y"}, "'a'"),
        ({"a": "1", "shoal-types": "a=q"}, "shoal-types"),
        ({"a": "1", "shoal-types": "b=i"}, "no such header"),
    ],
)
def test_a_header_that_means_nothing_is_refused(headers, why):
    with pytest.raises(FrameError, match=why):
        options_of(headers, 0.0)


def test_bodies_are_read_by_their_content_type():
    assert body_of({"content-type": "text/plain;charset=utf-8"}, "h\u00e9".encode()) == "h\u00e9"
    assert body_of({"content-type": "application/json"}, b'{"a": [1]}') == {"a": [1]}
    assert body_of({"content-type": "application/xml"}, b"<a/>") == b"<a/>"
    assert body_of({}, b"x") == b"x"
    assert body_of({}, b"") is None
    for kind, body in (
        ("text/plain", b"\xff"),
        ("application/json", b"{"),
        ("application/json", b"[" * 100_000),
    ):
        with pytest.raises(FrameError):
            body_of({"content-type": kind}, body)


values = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**31), 2**31 - 1).map(Int),
)


def test_a_nul_is_replaced_because_no_header_can_have_one():
    assert message_of(Message("a", None, properties={"p": "x\0y"})).headers["p"] == "x\ufffdy"


@given(st.dictionaries(names, values, max_size=6))
def test_properties_come_back_as_they_were(properties):
    wire = {name.replace("-", "_HYPHEN_").replace(".", "_DOT_"): value for name, value in properties.items()}
    try:
        message = Message("a", None, properties=wire)
    except ValueError:
        return
    frame = message_of(message)
    for name in ("subscription", "message-id", "timestamp"):
        frame.headers.pop(name, None)
    options = options_of(frame.headers, 0.0)
    assert options is not None
    assert (options["properties"] or {}) == wire
    assert [type(v) for v in (options["properties"] or {}).values()] == [type(v) for v in wire.values()]


@pytest.mark.parametrize("name", ["destination", "subscription", "ack", "type"])
def test_a_property_that_is_called_like_a_header_is_not_taken_for_it(name):
    frame = message_of(Message("a", None, properties={name: "mine"}))
    assert frame.headers[f"shoal-property-{name}"] == "mine"
    headers = {f"shoal-property-{name}": "mine"}
    assert options_of(headers, 0.0)["properties"] == {name: "mine"}
