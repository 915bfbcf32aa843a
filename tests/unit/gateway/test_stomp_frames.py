import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.gateway.frames import HEADER_BYTES_MAX, HEADERS_MAX, Frame, FrameError, FrameReader, encode

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


def frames_of(data: bytes, body_bytes_max: int = 1000) -> list[Frame]:
    reader = FrameReader(body_bytes_max)
    reader.feed(data)
    frames = []
    while (frame := reader.poll_frame()) is not None:
        frames.append(frame)
    return frames


def test_a_frame_has_a_command_headers_and_a_body():
    frames = frames_of(b"SEND\ndestination:/queue/a\ncontent-length:3\n\na\0b\0\n\nDISCONNECT\r\n\r\n\0")
    assert frames == [
        Frame("SEND", {"destination": "/queue/a", "content-length": "3"}, b"a\0b"),
        Frame("DISCONNECT", {}),
    ]


def test_a_body_without_its_length_ends_at_the_first_nul():
    assert frames_of(b"SEND\ndestination:/queue/a\n\nhello\0")[0].body == b"hello"


def test_the_first_of_two_equal_headers_counts():
    assert frames_of(b"SEND\na:1\na:2\n\n\0")[0].headers == {"a": "1"}


def test_a_value_may_have_colons_and_escapes():
    assert frames_of(b"SEND\nselector:a = 'b:c'\nx:\\c\\n\\\\\\r\n\n\0")[0].headers == {
        "selector": "a = 'b:c'",
        "x": ":\n\\\r",
    }


def test_connect_has_no_escapes():
    assert frames_of(b"CONNECT\npasscode:a\\nb\n\n\0")[0].headers == {"passcode": "a\\nb"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SEND\nx:\\t\n\n\0", "escape"),
        (b"SEND\nnothing\n\n\0", "no header"),
        (b"SEND\n:x\n\n\0", "no header"),
        (b"SEND\nx:\xff\n\n\0", "UTF-8"),
        (b"SEND\0", "within its headers"),
        (b"SEND\nx:\0y\n\n\0", "within its headers"),
        (b"SEND\ncontent-length:-1\n\n\0", "content-length"),
        (b"SEND\ncontent-length:\xd9\xa1\n\n\0", "content-length"),
        (b"SEND\ncontent-length:1001\n\n", "longer than 1000"),
        (b"SEND\n\n" + b"x" * 1001, "longer than 1000"),
        (b"SEND\ncontent-length:1\n\nab\0", "content-length"),
        (b"ACK\nid:1\n\nbody\0", "only SEND"),
        (b"SEND\nx:" + b"y" * HEADER_BYTES_MAX + b"\n\n\0", "bytes"),
        (b"y" * (HEADER_BYTES_MAX + 1), "bytes"),
        (b"SEND\n" + b"".join(b"h%d:1\n" % n for n in range(HEADERS_MAX + 1)) + b"\n\0", "headers"),
    ],
)
def test_what_is_no_frame_is_refused_with_the_reason(data, why):
    with pytest.raises(FrameError, match=why):
        frames_of(data)


@given(
    st.lists(
        st.tuples(st.dictionaries(text.filter(bool), text, max_size=5), st.binary(max_size=50)), max_size=5
    ),
    st.integers(1, 40),
)
def test_frames_come_back_however_the_stream_is_cut(given_frames, step):
    expected = [
        Frame(
            "MESSAGE",
            {n: v for n, v in headers.items() if n != "content-length"},
            body,
        )
        for headers, body in given_frames
    ]
    data = b"\n".join(encode(f.command, f.headers.items(), f.body) for f in expected)
    reader, found = FrameReader(1000), []
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        while (frame := reader.poll_frame()) is not None:
            frame.headers.pop("content-length", None)
            found.append(frame)
    assert found == expected


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_frames_or_refused_and_never_kept_without_a_bound(seed):
    rng = random.Random(seed)
    pieces = [
        b"SEND\n",
        b"CONNECT\n",
        b"a:b\n",
        b"\n",
        b"\0",
        b"content-length:7\n",
        b"\r\n",
        b"\\c",
        b"\xff",
        b"x",
    ]
    for _ in range(300):
        reader = FrameReader(500)
        with contextlib.suppress(FrameError):
            for _ in range(rng.randrange(1, 60)):
                reader.feed(rng.choice(pieces) * rng.randrange(1, 3))
                while reader.poll_frame() is not None:
                    pass
                assert reader.buffered <= HEADER_BYTES_MAX + 1000
