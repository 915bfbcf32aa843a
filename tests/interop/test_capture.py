"""The recorder itself, proven on libnorm's traffic and on rubbish."""

import socket

import pytest
from capture import capture

from shoal_bench.peers.libnorm import EventType, FlushMode, Instance, Stream

GROUP = "239.192.74.202"


def transfer_with_libnorm(port: int, *, fec_id: int) -> None:
    """A stream with INFO and some loss, acknowledged to the end: every common message type."""
    with Instance() as instance:
        receiver = instance.session(GROUP, port, 2)
        receiver.start_receiver()
        sender = instance.session(GROUP, port, 1)
        sender.set_grtt(0.005)
        sender.set_tx_rate(50e6)
        sender.set_backoff_factor(1.0)
        sender.add_acking_node(2)
        sender.start_sender(block_symbols=16, parity_symbols=4, fec_id=fec_id)
        sender.set_tx_loss(5.0)
        stream = sender.open_stream(info=b"info")
        stream.write(bytes(200_000))
        stream.flush(FlushMode.ACTIVE)
        left = 200_000
        while left:
            event = instance.next_event(timeout_s=60.0)
            assert event is not None
            if event.type == EventType.RX_OBJECT_UPDATED and isinstance(event.object, Stream):
                while piece := event.object.read():
                    left -= len(piece)
        sender.set_tx_loss(0.0)
        sender.set_watermark(stream)
        sender.wait_acknowledged(timeout_s=60.0)


def test_libnorm_traffic_dissects_without_a_malformed_packet(free_udp_port: int) -> None:
    with capture(free_udp_port) as wire:
        transfer_with_libnorm(free_udp_port, fec_id=129)
    assert wire.malformed() == []
    assert {"INFO", "DATA", "CMD FLUSH", "CMD CC", "NACK", "ACK"} <= wire.kinds()
    assert sum(packet.type == "DATA" for packet in wire.packets) >= 200_000 / 1400


def test_what_is_not_norm_is_reported_as_such(free_udp_port: int) -> None:
    truncated_info = bytes([0x11, 0x04]) + bytes(6)
    with (
        capture(free_udp_port) as wire,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sender.sendto(truncated_info, ("127.0.0.1", free_udp_port))
    assert len(wire.packets) == 1
    assert wire.malformed() == wire.packets


def test_nothing_sent_is_nothing_recorded(free_udp_port: int) -> None:
    with capture(free_udp_port) as wire:
        pass
    assert wire.packets == []


def test_a_missing_tool_fails_in_ci_and_is_a_skip_elsewhere(
    free_udp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for ci, outcome in (("true", pytest.fail.Exception), ("", pytest.skip.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcome, match="install Debian's tshark"), capture(free_udp_port):
            pass
