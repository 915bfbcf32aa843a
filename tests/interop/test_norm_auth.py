"""EXT_AUTH on real sockets: libnorm passes over it, and links with another label do not hear each other."""

import pytest
from framing import random_bodies
from test_norm_streams import (
    LIBNORM,
    OTHER_SHOAL,
    SHOAL,
    collect,
    libnorm_receiver,
    read_frames,
    shoal_link,
    wait_for,
)

from shoal_bench.peers.libnorm import Instance

COUNT = 300
OPTIONAL, REQUIRED = (b"trading desk", False), (b"trading desk", True)


@pytest.mark.parametrize("fec", ["reed_solomon_8", "small_block"])
def test_libnorm_receives_and_repairs_a_stream_whose_every_message_carries_ext_auth(
    free_udp_port: int, fec: str
) -> None:
    bodies = random_bodies(seed=1, count=COUNT)
    with Instance() as instance:
        receivers = [libnorm_receiver(instance, free_udp_port, LIBNORM, loss_percent=5.0)]
        link = shoal_link(SHOAL, free_udp_port, fec=fec, info=b"prices", auth_label=OPTIONAL)
        for body in bodies:
            link.send(body)
        assert read_frames(instance, COUNT, receivers=receivers) == {0: bodies}
        stats = link.stats()
        assert stats["repairs_sent"] > 0
        assert stats["authentication"] == 0, "libnorm's feedback carries no EXT_AUTH, and need not"
        assert link.close(5.0)


def test_links_with_the_same_label_hear_each_other_and_no_others(free_udp_port: int) -> None:
    bodies = random_bodies(seed=2, count=COUNT)
    receiver = shoal_link(OTHER_SHOAL, free_udp_port, auth_label=REQUIRED, drop_received=0.05)
    stranger = shoal_link(13, free_udp_port, auth_label=(b"back office", True))
    sender = shoal_link(SHOAL, free_udp_port, auth_label=REQUIRED, ackers=[OTHER_SHOAL])
    for body in bodies:
        sender.send(body)
    assert collect(receiver, COUNT, SHOAL) == bodies
    sender.request_watermark()
    [done] = wait_for(sender, "watermark_done", 1)
    assert done["acked"] == [OTHER_SHOAL]
    refused = stranger.stats()
    assert refused["authentication"] > 0
    assert refused["segments_received"] == 0
    for link in (sender, receiver, stranger):
        link.close(1.0)
