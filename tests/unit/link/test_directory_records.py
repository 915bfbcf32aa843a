"""What a registry's answers and datagrams have to look like to be believed."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import LinkError
from shoal.link.directory import STAMP_BYTES, Endpoint, Load, Record, Stamp, open_stamp

KEY = b"k" * 32
STAMP = Stamp("plant", b"registry", 1_700_000_000_000_000, b"echo1234")
RECORD = Record(
    "00000000000000ff", "gw1", (Endpoint("tls", "10.0.0.1", 7474),), "", 5, 2, ("router",), "1", Load(1)
)


def test_a_stamp_is_read_by_the_daemon_it_is_for() -> None:
    datagram = STAMP.seal(KEY)
    assert len(datagram) == STAMP_BYTES == 48
    assert open_stamp(datagram, "plant", KEY) == STAMP
    assert open_stamp(datagram, "other", KEY) is None
    assert open_stamp(datagram, "plant", b"x" * 32) is None


@given(st.integers(0, STAMP_BYTES * 8 - 1))
def test_a_stamp_with_any_bit_changed_is_ignored(bit: int) -> None:
    changed = bytearray(STAMP.seal(KEY))
    changed[bit // 8] ^= 1 << bit % 8
    assert open_stamp(bytes(changed), "plant", KEY) is None


@pytest.mark.parametrize("length", [0, 1, STAMP_BYTES - 1, STAMP_BYTES, STAMP_BYTES + 1, 1500])
def test_random_bytes_are_ignored(length: int) -> None:
    assert open_stamp(os.urandom(length), "plant", KEY) is None


def test_a_record_crosses_json() -> None:
    assert Record.from_json(RECORD.as_json()) == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"urls": [{"transport": "gopher", "host": "a", "port": 1}]},
        {"urls": [{"transport": "tcp", "host": "", "port": 1}]},
        {"urls": [{"transport": "tcp", "host": "a", "port": 70_000}]},
        {"urls": 5},
        {"load": None},
        {"cores": "many"},
    ],
)
def test_a_record_that_makes_no_sense_is_an_error(change: dict[str, object]) -> None:
    with pytest.raises(LinkError):
        Record.from_json(RECORD.as_json() | change)
