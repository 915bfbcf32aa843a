"""The TTL of multicast, as Wireshark sees it."""

import secrets
import socket

import pytest
from capture import capture

import shoal


@pytest.mark.parametrize("scheme", ["norm", "udp"])
@pytest.mark.parametrize("ttl", [None, 1, 7, 255])
def test_multicast_has_the_ttl_that_was_asked_for(scheme: str, ttl: int | None) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    group = f"239.255.{secrets.randbelow(250)}.{1 + secrets.randbelow(250)}"
    options = {} if ttl is None else {"multicast_ttl": ttl}
    with (
        capture(port) as wire,
        shoal.connect(f"{scheme}://{group}:{port}", interface="lo", **options) as bus,
        bus.subscribe("a") as subscription,
    ):
        bus.publish("a", "x")
        assert subscription.receive(30) is not None
    ttls = {packet.ttl for packet in wire.packets if packet.to == group}
    assert ttls == {ttl or 1}
