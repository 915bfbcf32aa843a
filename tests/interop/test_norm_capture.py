"""Every message Shoal sends, on the wire, as Wireshark reads it.

Wireshark 4.0 does not know the payload id of fec_id 5 (it calls libnorm's own messages malformed too), so
captures are judged with the schemes it knows.
"""

from pathlib import Path

import pytest
from capture import Capture, capture
from framing import random_bodies
from test_norm_streams import SHOAL, collect, shoal_link, wait_for

EVERY_KIND = {
    "INFO",
    "DATA",
    "NACK",
    "ACK",
    "CMD FLUSH",
    "CMD EOT",
    "CMD SQUELCH",
    "CMD CC",
    "CMD REPAIR_ADV",
}


@pytest.mark.parametrize("fec", ["small_block", "no_code"])
def test_every_message_is_dissected_without_a_fault(free_udp_port: int, fec: str) -> None:
    bodies = random_bodies(seed=9, count=300)
    with capture(free_udp_port) as wire:
        options = {"fec": fec, "block_symbols": 16}
        flow = {"ackers": [12], "window_bytes": 1 << 16}
        early = shoal_link(12, free_udp_port, drop_received=0.2, feedback="unicast", **options)
        sender = shoal_link(
            SHOAL, free_udp_port, info=b"prices", repair="aggregated", cache_bytes=1 << 17, **flow, **options
        )
        for body in bodies:
            sender.send(body)
        assert collect(early, len(bodies), SHOAL) == bodies
        sender.request_watermark()
        wait_for(sender, "watermark_done", 1)
        # A receiver that wants the start of a stream whose start is no longer there is refused.
        late = shoal_link(13, free_udp_port, **options)
        sender.send(b"one more")
        wait_for(late, "gap", 1)
        for link in (sender, early, late):
            link.close(1.0)
    assert wire.malformed() == []
    assert set(wire.kinds()) == EVERY_KIND


def transfer_objects(port: int, directory: Path, *, fec: str, parity: int, auth: bool) -> Capture:
    """Objects, a file, a command and a question to receivers of which one cannot be overheard."""
    source = directory / "file.bin"
    source.write_bytes(bytes(80_000))
    options: dict[str, object] = {"fec": fec, "block_symbols": 16, "congestion": "norm_cc"}
    options |= {"parity_symbols": parity, "auto_parity": parity // 4}
    interleaved = {"interleave_blocks": 2} if parity else {}
    if auth:
        options["auth_label"] = (b"trading desk", True)
    with capture(port) as wire:
        alone = shoal_link(12, port, drop_received=0.1, feedback="unicast", **options)
        heard = shoal_link(13, port, drop_received=0.1, files_directory=directory / "received", **options)
        sender = shoal_link(SHOAL, port, repair="aggregated", ackers=[13], **interleaved, **options)
        for _ in range(3):
            assert sender.send_data(bytes(100_000), b"about the object") is not None
        sender.send_file(source, b"copy.bin")
        sender.send(b"and a message")
        sender.send_command(b"attention", 2)
        sender.request_acks(16, 1, [13])
        wait_for(alone, "data_received", 3)
        wait_for(heard, "file_received", 1)
        wait_for(sender, "acks_done", 1)
        for link in (sender, alone, heard):
            link.close(1.0)
    return wire


@pytest.mark.parametrize(("fec", "parity"), [("small_block", 8), ("no_code", 0)])
@pytest.mark.parametrize("auth", [False, True], ids=["plain", "auth"])
def test_objects_parity_questions_and_extensions_are_dissected_without_a_fault(
    free_udp_port: int, tmp_path: Path, fec: str, parity: int, auth: bool
) -> None:
    (tmp_path / "received").mkdir()
    wire = transfer_objects(free_udp_port, tmp_path, fec=fec, parity=parity, auth=auth)
    assert wire.malformed() == []
    commands = {"CMD FLUSH", "CMD EOT", "CMD CC", "CMD REPAIR_ADV", "CMD ACK_REQ", "CMD APPLICATION"}
    # Everything that was asked for is still there, so nothing is refused.
    assert set(wire.kinds()) == {"INFO", "DATA", "NACK", "ACK"} | commands
    objects = {
        (packet.type, packet.object_kind) for packet in wire.packets if packet.type in {"INFO", "DATA"}
    }
    assert objects == {
        ("INFO", "data"),
        ("INFO", "file"),
        ("DATA", "data"),
        ("DATA", "file"),
        ("DATA", "stream"),
    }
    assert {packet.ack_type for packet in wire.packets if packet.type == "ACK"} >= {1, 16}
    assert any(packet.type == "DATA" and packet.parity for packet in wire.packets) == (parity > 0)
    # EXT_FTI in every segment, EXT_RATE in every probe, EXT_CC in every answer; EXT_AUTH in all of them.
    for kind in ("INFO", "DATA", "CMD CC"):
        assert {packet.extensions for packet in wire.packets if packet.kind == kind} == {1 + auth}, kind
    answers = {packet.extensions for packet in wire.packets if packet.type == "ACK" and packet.ack_type == 1}
    assert answers == {1 + auth}
