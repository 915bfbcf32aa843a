"""The harness alone: libnorm speaks to libnorm on loopback multicast."""

import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from shoal_bench.peers import libnorm
from shoal_bench.peers.libnorm import EventType, FlushMode, Instance, Session, Stream, SyncPolicy

GROUP = "239.192.74.200"
SENDER, RECEIVER = 1, 2


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(body)) + body for body in bodies)


def split_frames(stream: bytes) -> list[bytes]:
    bodies, at = [], 0
    while at < len(stream):
        (length,) = struct.unpack_from("<I", stream, at)
        bodies.append(stream[at + 4 : at + 4 + length])
        assert len(bodies[-1]) == length, "the last frame is cut"
        at += 4 + length
    return bodies


def random_bodies(seed: int, count: int) -> list[bytes]:
    print(f"seed {seed}")
    source = random.Random(seed)
    return [source.randbytes(source.choice((0, 1, 64, 1400, 5000))) for _ in range(count)]


def start_pair(instance: Instance, port: int, *, loss_percent: float = 0.0) -> tuple[Session, Session]:
    receiver = instance.session(GROUP, port, RECEIVER)
    receiver.set_sync_policy(SyncPolicy.STREAM)
    receiver.set_rx_loss(loss_percent)
    receiver.start_receiver()
    sender = instance.session(GROUP, port, SENDER)
    sender.set_grtt(0.01)
    sender.set_tx_rate(100e6)
    sender.set_backoff_factor(1.0)
    sender.add_acking_node(RECEIVER)
    sender.start_sender(block_symbols=16)
    return sender, receiver


def read_until(instance: Instance, receiver: Session, wanted_bytes: int) -> tuple[Stream, bytes]:
    received = bytearray()
    stream: Stream | None = None
    while len(received) < wanted_bytes:
        event = instance.next_event(timeout_s=60.0)
        assert event is not None, f"nothing more after {len(received)} of {wanted_bytes} bytes"
        if event.session is not receiver or not isinstance(event.object, Stream):
            continue
        stream = event.object
        while piece := stream.read():
            received += piece
        assert piece is not None, "the stream broke"
    assert stream is not None
    return stream, bytes(received)


@pytest.mark.parametrize("loss_percent", [0.0, 5.0])
def test_a_framed_stream_arrives_whole(free_udp_port: int, loss_percent: float) -> None:
    bodies = random_bodies(seed=1, count=500)
    content = framed(bodies)
    with Instance() as instance:
        sender, receiver = start_pair(instance, free_udp_port, loss_percent=loss_percent)
        stream = sender.open_stream(info=b"prices")
        for body in bodies:
            stream.write(framed([body]))
            stream.mark_eom()
        stream.flush(FlushMode.ACTIVE)
        received_stream, received = read_until(instance, receiver, len(content))
        assert split_frames(received) == bodies
        assert received_stream.info == b"prices"
        sender.set_watermark(stream)
        sender.wait_acknowledged(timeout_s=60.0)


def test_a_reader_in_the_middle_of_a_stream_finds_the_next_message_start(free_udp_port: int) -> None:
    with Instance() as instance:
        sender, _receiver = start_pair(instance, free_udp_port)
        stream = sender.open_stream()
        for body in (b"a" * 3000, b"b" * 3000):
            stream.write(body)
            stream.flush(eom=True)
        event = instance.wait_for(EventType.RX_OBJECT_NEW, timeout_s=60.0)
        assert event is not None
        assert isinstance(event.object, Stream)
        arriving = event.object
        begun = bytearray()

        def second_segment_is_begun() -> bool:
            begun.extend(arriving.read(2000 - len(begun)) or b"")
            return len(begun) == 2000

        instance.wait_until(second_segment_is_begun, timeout_s=60.0)
        instance.wait_until(arriving.seek_message_start, timeout_s=60.0)
        assert arriving.read(1) == b"b"


def test_data_objects_and_files_arrive_with_their_info(free_udp_port: int, tmp_path: Path) -> None:
    content = random.Random(7).randbytes(100_000)
    original, inbox = tmp_path / "original", tmp_path / "inbox"
    original.write_bytes(content)
    inbox.mkdir()
    with Instance(cache_directory=inbox) as instance:
        sender, receiver = start_pair(instance, free_udp_port)
        receiver.set_sync_policy(SyncPolicy.ALL)
        sender.enqueue_data(content, info=b"memory")
        arrived = instance.wait_for(EventType.RX_OBJECT_COMPLETED, timeout_s=60.0)
        assert arrived is not None
        assert isinstance(arrived.object, libnorm.Data)
        assert (arrived.object.info, arrived.object.content) == (b"memory", content)
        sender.enqueue_file(original, info=b"file")
        arrived = instance.wait_for(EventType.RX_OBJECT_COMPLETED, timeout_s=60.0)
        assert arrived is not None
        assert isinstance(arrived.object, libnorm.File)
        assert arrived.object.path.parent == inbox
        assert (arrived.object.info, arrived.object.path.read_bytes()) == (b"file", content)


def test_waiting_for_an_event_that_never_comes_returns_in_time(free_udp_port: int) -> None:
    with Instance() as instance:
        instance.session(GROUP, free_udp_port, RECEIVER).start_receiver()
        assert instance.next_event(timeout_s=0.05) is None


def test_a_closed_session_says_so_instead_of_crashing(free_udp_port: int) -> None:
    with Instance() as instance:
        with instance.session(GROUP, free_udp_port, SENDER) as sender:
            sender.start_sender()
            stream = sender.open_stream()
        with pytest.raises(libnorm.LibnormError, match="closed"):
            stream.write(b"late")
        with pytest.raises(libnorm.LibnormError, match="closed"):
            sender.set_tx_rate(1e6)


def test_a_missing_library_names_the_package_to_install() -> None:
    script = (
        "from shoal_bench.peers.libnorm import abi\n"
        "abi.SONAME = 'libnorm-that-is-not-there.so'\n"
        "try:\n    abi.load()\nexcept abi.LibnormError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "install Debian's libnorm1" in said
