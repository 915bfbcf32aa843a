import random

import pytest

from shoal.gateway import commands
from shoal.gateway.frames import FrameReader, encode
from shoal.gateway.session import CONNECT_S, Session, State

CONNECT = encode("CONNECT", [("accept-version", "1.1,1.2"), ("host", "x"), ("heart-beat", "4000,20000")])


def opened(now: float = 0.0) -> Session:
    session = Session(now, body_bytes_max=1000)
    session.handle_bytes(now, CONNECT)
    assert isinstance(session.poll_command(now), commands.Connect)
    session.welcome(now, session="1", server="shoal")
    session.poll_transmit()
    return session


def said(session: Session):
    reader = FrameReader(10_000)
    reader.feed(session.poll_transmit())
    frames = []
    while (frame := reader.poll_frame()) is not None:
        frames.append(frame)
    return frames


def test_a_client_is_welcomed_and_then_asks():
    session = Session(0.0, body_bytes_max=1000)
    session.handle_bytes(0.0, CONNECT + encode("BEGIN", [("transaction", "t")]))
    command = session.poll_command(0.0)
    assert isinstance(command, commands.Connect)
    assert session.poll_command(0.0) is None, "frames wait until the client is welcomed"
    session.welcome(0.0, session="7", server="shoal/1")
    (frame,) = said(session)
    assert (frame.command, frame.headers["version"], frame.headers["heart-beat"]) == (
        "CONNECTED",
        "1.2",
        "10000,10000",
    )
    assert session.poll_command(0.0) == commands.Begin(transaction="t", number=None)


def test_a_client_that_says_nothing_is_refused_after_five_seconds():
    session = Session(100.0, body_bytes_max=1000)
    assert session.poll_timeout() == 100.0 + CONNECT_S
    session.handle_timeout(104.9)
    assert not session.is_over
    session.handle_timeout(105.0)
    assert session.is_over
    assert said(session)[0].command == "ERROR"


def test_other_versions_are_refused_by_name():
    session = Session(0.0, body_bytes_max=1000)
    session.handle_bytes(0.0, encode("CONNECT", [("accept-version", "1.0,1.1")]))
    assert session.poll_command(0.0) is None
    (error,) = said(session)
    assert (error.headers["version"], session.is_over) == ("1.2", True)
    assert "1.0, 1.1" in error.headers["message"]


def test_heart_beats_are_agreed_on_and_silence_ends_the_session():
    session = opened(0.0)
    # This side beats every 20 s, as the client wants; the client every 10 s, as this side wants.
    assert session.poll_timeout() == 20.0
    session.handle_timeout(20.0)
    assert session.poll_transmit() == b"\n"
    assert session.poll_timeout() == 25.0
    session.handle_bytes(24.0, b"\n")
    session.handle_timeout(25.0)
    assert session.state is State.OPEN
    session.handle_timeout(49.0)
    assert session.is_over


def test_a_client_without_heart_beats_may_be_silent():
    session = Session(0.0, body_bytes_max=1000)
    session.handle_bytes(0.0, encode("STOMP", [("accept-version", "1.2")]))
    session.poll_command(0.0)
    session.welcome(0.0, session="1", server="x")
    assert session.poll_timeout() is None


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (CONNECT, "there was one"),
        (encode("HELLO"), "no command"),
        (encode("MESSAGE"), "no command"),
        (encode("SEND"), "needs the header destination"),
        (encode("SUBSCRIBE", [("destination", "/topic/a")]), "needs the header id"),
        (encode("SUBSCRIBE", [("id", "1"), ("destination", "/topic/a"), ("ack", "x")]), "ack is 'x'"),
        (
            encode("SUBSCRIBE", [("id", "1"), ("destination", "/topic/a"), ("prefetch-count", "10001")]),
            "10000",
        ),
        (encode("SUBSCRIBE", [("id", "1"), ("destination", "/topic/a"), ("prefetch-count", "0")]), "from 1"),
        (
            encode("SUBSCRIBE", [("id", "1"), ("destination", "/topic/a"), ("browser", "yes")]),
            "true or false",
        ),
        (encode("ACK"), "needs the header id"),
        (encode("SEND", [("destination", "/topic/a"), ("shoal-id", "1")]), "persistent"),
        (
            encode(
                "SEND",
                [
                    ("destination", "/topic/a"),
                    ("shoal-id", "1"),
                    ("persistent", "true"),
                    ("transaction", "t"),
                ],
            ),
            "BEGIN",
        ),
        (encode("BEGIN", [("transaction", "x" * 256)]), "255"),
        (encode("NACK", [("id", "1"), ("transaction", "t"), ("shoal-dead", "true")]), "dead letters"),
    ],
)
def test_what_cannot_be_understood_is_one_error_with_the_receipt_and_the_end(frame, why):
    session = opened()
    head, _, rest = frame.partition(b"\n")
    session.handle_bytes(1.0, head + b"\nreceipt:r1\n" + rest)
    assert session.poll_command(1.0) is None
    (error,) = said(session)
    assert error.command == "ERROR"
    assert why in error.headers["message"]
    assert error.headers["receipt-id"] == "r1"
    assert session.is_over
    session.handle_bytes(2.0, encode("BEGIN", [("transaction", "t")]))
    assert session.poll_command(2.0) is None
    assert session.poll_transmit() == b""


def test_disconnect_ends_with_its_receipt():
    session = opened()
    session.handle_bytes(1.0, encode("DISCONNECT", [("receipt", "bye")]) + encode("ACK", [("id", "1")]))
    assert session.poll_command(1.0) == commands.Disconnect(receipt="bye")
    assert session.poll_command(1.0) is None
    session.receipt(1.0, "bye")
    session.end()
    assert said(session)[0].headers == {"receipt-id": "bye"}
    assert session.is_over


def test_a_first_frame_that_does_not_end_is_refused():
    session = Session(0.0, body_bytes_max=1 << 20)
    session.handle_bytes(0.0, b"\n" * 20_000)
    assert session.is_over


@pytest.mark.parametrize("seed", range(10))
def test_random_sessions_end_in_at_most_one_error(seed):
    rng = random.Random(seed)
    frames = [
        CONNECT,
        encode("BEGIN", [("transaction", "t")]),
        encode("SEND", [("destination", "/topic/a")], b"x"),
        encode("ACK", [("id", "1")]),
        encode("DISCONNECT"),
        b"\n",
        b"\0",
        b"x",
    ]
    for _ in range(200):
        session, now, errors = Session(0.0, body_bytes_max=100), 0.0, 0
        for _ in range(rng.randrange(1, 15)):
            now += rng.random()
            data = rng.choice(frames)
            if rng.random() < 0.2:
                data = data[: rng.randrange(len(data) + 1)]
            session.handle_bytes(now, data)
            while (command := session.poll_command(now)) is not None:
                if isinstance(command, commands.Connect):
                    session.welcome(now, session="1", server="x")
            session.handle_timeout(now)
            errors += sum(frame.command == "ERROR" for frame in said(session))
        assert errors <= 1
        assert (errors == 1) == session.is_over
