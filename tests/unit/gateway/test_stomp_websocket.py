import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.typing import Origin, Subprotocol
from websockets.uri import parse_uri

from shoal.gateway.websocket import HANDSHAKE_BYTES_MAX, WebSocket


def dial(carrier: WebSocket, path: str = "/stomp", **options: object) -> ClientProtocol:
    """A client whose handshake the carrier answered."""
    client = ClientProtocol(parse_uri(f"ws://gw{path}"), **options)  # type: ignore[arg-type]
    client.send_request(client.connect())
    assert carrier.receive(b"".join(client.data_to_send())) == b""
    client.receive_data(carrier.poll_answer())
    client.events_received()
    return client


def served(*origins: str) -> WebSocket:
    return WebSocket("/stomp", origins, 1000)


def test_frames_travel_in_messages():
    carrier = served()
    client = dial(carrier, subprotocols=[Subprotocol("v11.stomp"), Subprotocol("v12.stomp")])
    assert (client.state, client.subprotocol) == (State.OPEN, "v12.stomp")
    client.send_text(b"CONNECT\n")
    client.send_binary(b"\n\0")
    assert carrier.receive(b"".join(client.data_to_send())) == b"CONNECT\n\n\0"
    client.receive_data(carrier.carry(b"CONNECTED\n\n\0"))
    (frame,) = client.events_received()
    assert isinstance(frame, Frame)
    assert (frame.opcode, frame.data) == (Opcode.BINARY, b"CONNECTED\n\n\0")
    client.receive_data(carrier.finish())
    assert client.state is State.CLOSING


def test_a_client_that_names_no_protocol_is_served():
    assert dial(served()).state is State.OPEN


def test_pings_are_answered():
    carrier = served()
    client = dial(carrier)
    client.send_ping(b"x")
    assert carrier.receive(b"".join(client.data_to_send())) == b""
    client.receive_data(carrier.poll_answer())
    assert [frame.opcode for frame in client.events_received()] == [Opcode.PONG]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "options", "status"),
    [
        ("/other", {}, 404),
        ("/stomp", {"origin": Origin("https://evil.example")}, 403),
        ("/stomp", {"subprotocols": [Subprotocol("v11.stomp")]}, 400),
    ],
)
def test_what_is_not_served_is_refused_and_closed(path, options, status):
    carrier = served("https://desk.example")
    client = dial(carrier, path, **options)
    assert client.state is not State.OPEN
    assert str(status) in str(client.handshake_exc)
    assert carrier.is_over
    assert not carrier.is_open


def test_a_page_of_a_listed_origin_is_served():
    origin = Origin("https://desk.example")
    assert dial(served("https://desk.example"), origin=origin).state is State.OPEN


def test_a_closed_connection_is_over():
    carrier = served()
    client = dial(carrier)
    client.send_close(1000)
    carrier.receive(b"".join(client.data_to_send()))
    assert carrier.is_over


@pytest.mark.parametrize(
    "data",
    [b"GET /stomp HTTP/1.1\r\n" + b"x: y\r\n" * HANDSHAKE_BYTES_MAX, b"CONNECT\n\n\0", b"\x16\x03\x01" * 100],
)
def test_what_is_no_handshake_ends_the_connection(data):
    carrier = served()
    for at in range(0, len(data), 4096):
        carrier.receive(data[at : at + 4096])
    carrier.receive(b"\r\n\r\n")
    assert carrier.is_over


def test_a_message_that_is_too_long_ends_the_connection():
    carrier = served()
    client = dial(carrier)
    client.send_binary(b"x" * 1001)
    carrier.receive(b"".join(client.data_to_send()))
    assert carrier.is_over
