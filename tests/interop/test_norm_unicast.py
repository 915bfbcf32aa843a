"""NORM between two unicast addresses: Shoal with Shoal, and with libnorm."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from framing import FrameSplitter, frame, random_bodies

from shoal import errors
from shoal._core import NormLink
from shoal_bench.peers.libnorm import FlushMode, Instance, Session, Stream, SyncPolicy

HERE, THERE = "127.0.0.1", "127.0.0.2"
SHOAL, OTHER = 11, 21
COUNT = 400
PATIENCE_S = 60.0


@contextmanager
def link(node: int, here: str, peer: str, port: int, **options: object) -> Iterator[NormLink]:
    defaults: dict[str, object] = {"sync": "start", "backoff_factor": 1, "rate_bytes_per_s": 5e6}
    made = NormLink(node, group=peer, port=port, interface=here, seed=node, **(defaults | options))
    try:
        yield made
    finally:
        made.close(0.0)


def collect(made: NormLink, sender: int) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < COUNT:
        assert time.monotonic() < deadline, f"{len(found)} of {COUNT}: {made.stats()}"
        for kind, fields in made.receive(timeout_s=0.5):
            if kind == "message":
                assert fields["sender"] == sender
                found.append(fields["body"])
    return found


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("feedback", ["multicast", "unicast"])
def test_two_links_exchange_streams_in_both_directions(
    free_udp_port: int, loss: float, feedback: str
) -> None:
    to_there, to_here = random_bodies(seed=1, count=COUNT), random_bodies(seed=2, count=COUNT)
    options = {"drop_received": loss, "feedback": feedback}
    with (
        link(SHOAL, HERE, THERE, free_udp_port, **options) as here,
        link(OTHER, THERE, HERE, free_udp_port, **options) as there,
    ):
        for forth, back in zip(to_there, to_here, strict=True):
            here.send(forth)
            there.send(back)
        assert collect(there, SHOAL) == to_there
        assert collect(here, OTHER) == to_here
        assert (here.stats()["repairs_sent"] > 0) == (loss > 0)


def test_each_end_may_listen_on_a_port_of_its_own(free_udp_port: int) -> None:
    left, right = free_udp_port, free_udp_port + 1
    bodies = random_bodies(seed=3, count=COUNT)
    with (
        link(SHOAL, HERE, HERE, right, listen_port=left, ackers=[OTHER]) as here,
        link(OTHER, HERE, HERE, left, listen_port=right),
    ):
        for body in bodies:
            here.send(body)
        assert here.close(PATIENCE_S), "the peer acknowledges all of it"


def test_a_link_to_itself_is_refused_with_a_reason(free_udp_port: int) -> None:
    with (
        pytest.raises(errors.ShoalError, match="where this link itself listens"),
        link(SHOAL, "auto", HERE, free_udp_port),
    ):
        pass


def libnorm_session(instance: Instance, port: int) -> Session:
    return instance.session(HERE, port, OTHER, listen_on=THERE)


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.2])
def test_libnorm_receives_what_shoal_sends_to_its_address(free_udp_port: int, loss: float) -> None:
    bodies = random_bodies(seed=4, count=COUNT)
    with Instance() as instance, link(SHOAL, HERE, THERE, free_udp_port, ackers=[OTHER]) as sender:
        session = libnorm_session(instance, free_udp_port)
        session.set_sync_policy(SyncPolicy.STREAM)
        session.set_rx_loss(100 * loss)
        session.start_receiver()
        for body in bodies:
            sender.send(body)
        found: list[bytes] = []
        splitter = FrameSplitter()
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < COUNT:
            assert time.monotonic() < deadline, f"{len(found)} of {COUNT}: {sender.stats()}"
            event = instance.next_event(timeout_s=0.5)
            if event is not None and isinstance(event.object, Stream):
                while piece := event.object.read():
                    found += splitter.feed(piece)
                assert piece is not None, "the stream broke"
        assert found == bodies


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.2])
def test_shoal_receives_what_libnorm_sends_to_its_address(free_udp_port: int, loss: float) -> None:
    bodies = random_bodies(seed=5, count=COUNT)
    with Instance() as instance, link(SHOAL, HERE, THERE, free_udp_port, lanes=0) as receiver:
        session = libnorm_session(instance, free_udp_port)
        session.set_grtt(0.01)
        session.set_backoff_factor(1.0)
        session.set_tx_rate(40e6)
        session.set_tx_loss(100 * loss)
        session.add_acking_node(SHOAL)
        session.start_sender(block_symbols=16)
        stream = session.open_stream()
        for body in bodies:
            stream.write(frame(body))
            stream.mark_eom()
        stream.flush(FlushMode.ACTIVE, eom=True)
        session.set_watermark(stream)
        assert collect(receiver, OTHER) == bodies
        session.wait_acknowledged(timeout_s=PATIENCE_S)
