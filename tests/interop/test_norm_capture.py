"""Every message Shoal sends, on the wire, as Wireshark reads it.

Wireshark 4.0 does not know the payload id of fec_id 5 (it calls libnorm's own messages malformed too), so
captures are judged with the schemes it knows.
"""

import pytest
from capture import capture
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
