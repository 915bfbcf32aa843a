"""Shoal and libnorm in one group: streams in both directions, with loss, late join, several receivers."""

import time
from collections.abc import Callable

import pytest
from framing import FrameSplitter, frame, random_bodies

from shoal._core import NormLink
from shoal_bench.peers.libnorm import EventType, FlushMode, Instance, Session, Stream, SyncPolicy

GROUP = "239.192.74.202"
SHOAL, LIBNORM, OTHER_SHOAL, OTHER_LIBNORM = 11, 21, 12, 22
COUNT = 400
PATIENCE_S = 60.0


def shoal_link(node: int, port: int, **options: object) -> NormLink:
    defaults = {"sync": "start", "rate_bytes_per_s": 5e6, "backoff_factor": 1}
    return NormLink(node, group=GROUP, port=port, interface="lo", seed=node, **(defaults | options))


def collect(link: NormLink, count: int, sender: int) -> list[bytes]:
    """The first messages that arrive from a sender."""
    return [fields["body"] for fields in wait_for(link, "message", count, lambda f: f["sender"] == sender)]


def wait_for(
    link: NormLink, kind: str, count: int, wanted: Callable[[dict[str, object]], bool] = lambda fields: True
) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, (
            f"{len(found)} of {count} {kind}s after {PATIENCE_S} s: {link.stats()}"
        )
        found += [fields for met, fields in link.receive(timeout_s=0.5) if met == kind and wanted(fields)]
    return found


def libnorm_receiver(instance: Instance, port: int, node: int, loss_percent: float = 0.0) -> Session:
    session = instance.session(GROUP, port, node)
    session.set_sync_policy(SyncPolicy.STREAM)
    session.set_rx_loss(loss_percent)
    session.start_receiver()
    return session


def libnorm_sender(
    instance: Instance, port: int, *, loss_percent: float = 0.0, fec_id: int | None = None
) -> Session:
    session = instance.session(GROUP, port, LIBNORM)
    session.set_grtt(0.01)
    session.set_tx_rate(40e6)
    session.set_backoff_factor(1.0)
    session.set_tx_loss(loss_percent)
    session.start_sender(block_symbols=16, fec_id=fec_id)
    return session


def publish(stream: Stream, bodies: list[bytes]) -> None:
    for body in bodies:
        stream.write(frame(body))
        stream.mark_eom()
    stream.flush(FlushMode.ACTIVE, eom=True)


def read_frames(instance: Instance, count: int, *, receivers: list[Session]) -> dict[int, list[bytes]]:
    """The first `count` messages at each libnorm receiver, by its place in the list."""
    splitters = [FrameSplitter() for _ in receivers]
    found: dict[int, list[bytes]] = {at: [] for at in range(len(receivers))}
    deadline = time.monotonic() + PATIENCE_S
    while any(len(bodies) < count for bodies in found.values()):
        event = instance.next_event(timeout_s=0.5)
        state = {at: len(bodies) for at, bodies in found.items()}
        assert time.monotonic() < deadline, f"messages at each receiver: {state} of {count}"
        if event is None or event.session not in receivers or not isinstance(event.object, Stream):
            continue
        at = receivers.index(event.session)
        while piece := event.object.read():
            found[at] += splitters[at].feed(piece)
        assert piece is not None, "the stream broke"
    return found


@pytest.mark.parametrize("loss_percent", [0.0, 5.0, 20.0])
@pytest.mark.parametrize("fec", ["reed_solomon_8", "small_block"])
def test_libnorm_receives_what_shoal_sends(free_udp_port: int, loss_percent: float, fec: str) -> None:
    bodies = random_bodies(seed=1, count=COUNT)
    with Instance() as instance:
        receivers = [libnorm_receiver(instance, free_udp_port, LIBNORM, loss_percent)]
        link = shoal_link(SHOAL, free_udp_port, fec=fec, info=b"prices")
        for body in bodies:
            link.send(body)
        assert read_frames(instance, COUNT, receivers=receivers) == {0: bodies}
        stats = link.stats()
        assert stats["repairs_sent"] > 0 or loss_percent == 0
        assert link.close(5.0)


def test_libnorm_gets_the_info_of_a_shoal_stream(free_udp_port: int) -> None:
    with Instance() as instance:
        libnorm_receiver(instance, free_udp_port, LIBNORM)
        link = shoal_link(SHOAL, free_udp_port, info=b"prices of today")
        link.send(b"hello")
        event = instance.wait_for(EventType.RX_OBJECT_INFO, timeout_s=PATIENCE_S)
        assert event is not None
        assert event.object is not None
        assert event.object.info == b"prices of today"
        link.close(1.0)


@pytest.mark.parametrize("loss_percent", [0.0, 5.0, 20.0])
@pytest.mark.parametrize("fec_id", [5, 129])
def test_shoal_receives_what_libnorm_sends(free_udp_port: int, loss_percent: float, fec_id: int) -> None:
    bodies = random_bodies(seed=2, count=COUNT)
    with Instance() as instance:
        link = shoal_link(SHOAL, free_udp_port)
        sender = libnorm_sender(instance, free_udp_port, loss_percent=loss_percent, fec_id=fec_id)
        publish(sender.open_stream(info=b"quotes"), bodies)
        assert collect(link, COUNT, LIBNORM) == bodies
        assert link.stats()["nacks_sent"] > 0 or loss_percent == 0
        link.close(0.0)


def test_shoal_gets_the_info_and_the_end_of_a_libnorm_stream(free_udp_port: int) -> None:
    with Instance() as instance:
        link = shoal_link(SHOAL, free_udp_port)
        stream = libnorm_sender(instance, free_udp_port).open_stream(info=b"quotes of today")
        publish(stream, [b"only one"])
        assert wait_for(link, "info", 1)[0]["content"] == b"quotes of today"
        stream.close(graceful=True)
        assert wait_for(link, "stream_closed", 1)[0]["reason"] == "ended"
        link.close(0.0)


def test_mixed_receivers_of_one_shoal_sender_all_get_everything(free_udp_port: int) -> None:
    bodies = random_bodies(seed=3, count=COUNT)
    with Instance() as instance:
        receivers = [
            libnorm_receiver(instance, free_udp_port, LIBNORM, 5.0),
            libnorm_receiver(instance, free_udp_port, OTHER_LIBNORM, 10.0),
        ]
        other = shoal_link(OTHER_SHOAL, free_udp_port, drop_received=0.1)
        link = shoal_link(SHOAL, free_udp_port)
        for body in bodies:
            link.send(body)
        assert collect(other, COUNT, SHOAL) == bodies
        assert read_frames(instance, COUNT, receivers=receivers) == {0: bodies, 1: bodies}
        link.close(2.0)
        other.close(0.0)


def test_mixed_senders_in_one_group_do_not_disturb_each_other(free_udp_port: int) -> None:
    ours, theirs = random_bodies(seed=4, count=COUNT), random_bodies(seed=5, count=COUNT)
    with Instance() as instance:
        listener = shoal_link(OTHER_SHOAL, free_udp_port, drop_received=0.05)
        link = shoal_link(SHOAL, free_udp_port)
        sender = libnorm_sender(instance, free_udp_port)
        for body in ours:
            link.send(body)
        publish(sender.open_stream(), theirs)
        got: dict[int, list[bytes]] = {SHOAL: [], LIBNORM: []}
        deadline = time.monotonic() + PATIENCE_S
        while got != {SHOAL: ours, LIBNORM: theirs}:
            assert time.monotonic() < deadline, {node: len(bodies) for node, bodies in got.items()}
            for kind, fields in listener.receive(timeout_s=0.5):
                if kind == "message":
                    got[fields["sender"]].append(fields["body"])
        link.close(1.0)
        listener.close(0.0)


@pytest.mark.parametrize("feedback", ["multicast", "unicast"])
def test_a_late_shoal_receiver_begins_with_a_message_of_libnorms_stream(
    free_udp_port: int, feedback: str
) -> None:
    bodies = [number.to_bytes(4, "big") * 50 for number in range(2000)]
    with Instance() as instance:
        sender = libnorm_sender(instance, free_udp_port)
        stream = sender.open_stream()
        first = shoal_link(SHOAL, free_udp_port)
        publish(stream, bodies[:1000])
        collect(first, 900, LIBNORM)
        late = shoal_link(OTHER_SHOAL, free_udp_port, sync="current", feedback=feedback, drop_received=0.1)
        publish(stream, bodies[1000:])
        got: list[bytes] = []
        while not got or got[-1] != bodies[-1]:
            got += collect(late, 1, LIBNORM)
        assert got == bodies[-len(got) :]
        first.close(0.0)
        late.close(0.0)


def test_a_late_libnorm_receiver_catches_up_with_a_shoal_stream(free_udp_port: int) -> None:
    bodies = random_bodies(seed=6, count=COUNT)
    with Instance() as instance:
        witness = shoal_link(OTHER_SHOAL, free_udp_port)
        link = shoal_link(SHOAL, free_udp_port)
        for body in bodies[: COUNT // 2]:
            link.send(body)
        collect(witness, COUNT // 2, SHOAL)
        receivers = [libnorm_receiver(instance, free_udp_port, LIBNORM)]
        for body in bodies[COUNT // 2 :]:
            link.send(body)
        assert read_frames(instance, COUNT, receivers=receivers) == {0: bodies}
        link.close(1.0)
        witness.close(0.0)


def test_libnorm_acknowledges_a_shoal_watermark(free_udp_port: int) -> None:
    with Instance() as instance:
        receivers = [libnorm_receiver(instance, free_udp_port, LIBNORM, 10.0)]
        link = shoal_link(SHOAL, free_udp_port, ackers=[LIBNORM])
        bodies = random_bodies(seed=7, count=100)
        for body in bodies:
            link.send(body)
        assert read_frames(instance, 100, receivers=receivers) == {0: bodies}
        link.request_watermark()
        assert wait_for(link, "watermark_done", 1)[0]["acked"] == [LIBNORM]
        link.close(1.0)


def test_shoal_acknowledges_a_libnorm_watermark(free_udp_port: int) -> None:
    with Instance() as instance:
        link = shoal_link(SHOAL, free_udp_port, drop_received=0.1)
        sender = libnorm_sender(instance, free_udp_port)
        sender.add_acking_node(SHOAL)
        stream = sender.open_stream()
        bodies = random_bodies(seed=8, count=100)
        publish(stream, bodies)
        sender.set_watermark(stream)
        assert collect(link, 100, LIBNORM) == bodies
        sender.wait_acknowledged(timeout_s=PATIENCE_S)
        link.close(0.0)
