"""Objects, files and streams between Shoal and libnorm: every kind, code, loss and direction."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from framing import FrameSplitter, frame

from shoal._core import NormLink
from shoal.bench.peers.libnorm import (
    Data,
    EventType,
    File,
    FlushMode,
    Instance,
    NormObject,
    Session,
    Stream,
    SyncPolicy,
)

GROUP = "239.192.74.206"
SHOAL, OTHER_SHOAL, LIBNORM, OTHER_LIBNORM = 11, 12, 21, 22
PATIENCE_S = 20.0
FEC_NAMES = {5: "reed_solomon_8", 129: "small_block"}


@dataclass(frozen=True)
class Case:
    """One way to transfer."""

    kind: str
    fec_id: int
    parity: int
    auto_parity: int
    loss_percent: float
    congestion_control: bool = False

    def __str__(self) -> str:
        parity = f"{self.parity}+{self.auto_parity}" if self.parity else "none"
        control = "-cc" if self.congestion_control else ""
        return f"{self.kind}-fec{self.fec_id}-parity_{parity}-loss{self.loss_percent:g}{control}"

    @property
    def seed(self) -> int:
        return sum(str(self).encode())

    def contents(self) -> list[bytes]:
        """Objects of one segment, of some, and of many blocks; or as many messages."""
        source = random.Random(self.seed)
        print(f"seed {self.seed}")
        lengths = (1, 1400, 22_400) if self.congestion_control else (1, 1400, 20_000, 150_000, 22_400)
        return [source.randbytes(length) for length in lengths]


CASES = [
    Case(kind, fec_id, parity, auto_parity, loss_percent)
    for kind in ("data", "file", "stream")
    for fec_id in (5, 129)
    for parity, auto_parity in ((0, 0), (8, 0), (8, 3))
    for loss_percent in (0.0, 5.0, 20.0)
]
#: Rate control takes its time with loss, so these move less.
CONTROLLED = [
    Case(kind, fec_id, parity, 0, loss_percent, congestion_control=True)
    for kind in ("data", "file", "stream")
    for fec_id in (5, 129)
    for parity in (0, 8)
    for loss_percent in (0.0, 5.0, 20.0)
]
#: Several receivers, and watermarks: with and without parity, and with rate control.
WATERMARKED = [
    Case(kind, fec_id, parity, 0, loss_percent, congestion_control)
    for kind in ("data", "file", "stream")
    for fec_id in (5, 129)
    for parity in (0, 8)
    for loss_percent in (0.0, 20.0)
    for congestion_control in (False, True)
]
#: libnorm's own rate control needs seconds for any transfer, five and more with loss or two ackers.
#: Each kind is there with each scheme; the rest of the matrix runs without its control.
CONTROLLED_BY_LIBNORM = [
    case
    for case in CONTROLLED
    if (case.fec_id, case.loss_percent, bool(case.parity)) in {(5, 5.0, True), (129, 0.0, False)}
]
WATERMARKED_BY_LIBNORM = [
    case
    for case in WATERMARKED
    if not case.congestion_control or str(case) == "stream-fec5-parity_8+0-loss0-cc"
]


def shoal_link(case: Case, port: int, *, node: int = SHOAL, **options: object) -> NormLink:
    defaults: dict[str, object] = {
        "sync": "all",
        "rate_bytes_per_s": 5e6,
        "backoff_factor": 1,
        "fec": FEC_NAMES[case.fec_id],
        "block_symbols": 16,
        "parity_symbols": case.parity,
        "auto_parity": case.auto_parity,
        "lanes": 1 if case.kind == "stream" else 0,
    }
    return NormLink(node, group=GROUP, port=port, interface="lo", seed=case.seed, **(defaults | options))


def libnorm_receiver(instance: Instance, port: int, node: int, loss_percent: float) -> Session:
    session = instance.session(GROUP, port, node)
    # The first object may be lost as a whole.
    session.set_sync_policy(SyncPolicy.ALL)
    session.set_rx_loss(loss_percent)
    session.start_receiver()
    return session


def libnorm_sender(instance: Instance, port: int, case: Case) -> Session:
    session = instance.session(GROUP, port, LIBNORM)
    session.set_grtt(0.01)
    session.set_backoff_factor(1.0)
    session.set_tx_rate(40e6)
    session.set_congestion_control(case.congestion_control)
    session.set_tx_loss(case.loss_percent)
    session.start_sender(block_symbols=16, parity_symbols=case.parity, fec_id=case.fec_id)
    session.set_auto_parity(case.auto_parity)
    return session


def send_with_shoal(link: NormLink, case: Case, contents: list[bytes], directory: Path) -> int | None:
    """Sends everything; returns the number of the last object, if they are objects."""
    last = None
    for index, content in enumerate(contents):
        if case.kind == "stream":
            link.send(content)
        elif case.kind == "data":
            last = link.send_data(content, b"number %d" % index)
        else:
            path = directory / f"file{index}"
            path.write_bytes(content)
            last = link.send_file(path, b"number %d" % index)
        assert case.kind == "stream" or last is not None, "there is no room"
    return last


def collect_with_libnorm(
    instance: Instance, case: Case, count: int, receivers: list[Session]
) -> list[list[bytes]]:
    """What each receiver got: objects in the order they were complete, or messages of a stream."""
    found: list[list[bytes]] = [[] for _ in receivers]
    splitters = [FrameSplitter() for _ in receivers]
    deadline = time.monotonic() + PATIENCE_S
    while any(len(contents) < count for contents in found):
        assert time.monotonic() < deadline, f"{[len(contents) for contents in found]} of {count}"
        event = instance.next_event(timeout_s=0.5)
        if event is None or event.session not in receivers:
            continue
        at = receivers.index(event.session)
        if case.kind == "stream" and isinstance(event.object, Stream):
            while piece := event.object.read():
                found[at] += splitters[at].feed(piece)
            assert piece is not None, "the stream broke"
        elif event.type == EventType.RX_OBJECT_COMPLETED:
            if isinstance(event.object, Data):
                found[at].append(event.object.content)
            elif isinstance(event.object, File):
                found[at].append(event.object.path.read_bytes())
    return found


def send_with_libnorm(sender: Session, case: Case, contents: list[bytes], directory: Path) -> NormObject:
    """Sends everything; returns the stream, or the last object."""
    if case.kind == "stream":
        stream = sender.open_stream()
        for content in contents:
            stream.write(frame(content))
            stream.mark_eom()
        stream.flush(FlushMode.ACTIVE, eom=True)
        return stream
    last: NormObject | None = None
    for index, content in enumerate(contents):
        if case.kind == "data":
            last = sender.enqueue_data(content, info=b"number %d" % index)
        else:
            (path := directory / f"file{index}").write_bytes(content)
            last = sender.enqueue_file(path, info=b"number %d" % index)
    assert last is not None
    return last


def collect_with_shoal(link: NormLink, case: Case, count: int, directory: Path) -> list[bytes]:
    """What a link got: objects in the order they were complete, or messages of a stream."""
    kinds = {"stream": "message", "data": "data_received", "file": "file_received"}
    found = wait_for(link, lambda kind, fields: kind == kinds[case.kind], count)
    if case.kind == "file":
        assert {fields["path"].parent for fields in found} == {directory}
        return [fields["path"].read_bytes() for fields in found]
    return [fields["body" if case.kind == "stream" else "content"] for fields in found]


def wait_for(
    link: NormLink, wanted: Callable[[str, dict[str, Any]], bool], count: int
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} after {PATIENCE_S} s: {link.stats()}"
        found += [fields for kind, fields in link.receive(timeout_s=0.5) if wanted(kind, fields)]
    return found


def same(case: Case, got: list[bytes], sent: list[bytes]) -> bool:
    """Objects may be complete in any order; messages of a stream may not."""
    return got == sent if case.kind == "stream" else sorted(got) == sorted(sent)


@pytest.mark.parametrize("case", CASES + CONTROLLED, ids=str)
def test_libnorm_receives_what_shoal_sends(free_udp_port: int, tmp_path: Path, case: Case) -> None:
    contents = case.contents()
    (cache := tmp_path / "cache").mkdir()
    options = {"congestion": "norm_cc"} if case.congestion_control else {}
    with Instance(cache_directory=cache) as instance:
        receivers = [libnorm_receiver(instance, free_udp_port, LIBNORM, case.loss_percent)]
        link = shoal_link(case, free_udp_port, **options)
        send_with_shoal(link, case, contents, tmp_path)
        (got,) = collect_with_libnorm(instance, case, len(contents), receivers)
        assert same(case, got, contents)
        if case.loss_percent > 5 and case.parity and not case.congestion_control:
            assert link.stats()["parity_sent"] > 0
        link.close(0.2)


@pytest.mark.parametrize("case", CASES + CONTROLLED_BY_LIBNORM, ids=str)
def test_shoal_receives_what_libnorm_sends(free_udp_port: int, tmp_path: Path, case: Case) -> None:
    contents = case.contents()
    with Instance() as instance:
        link = shoal_link(case, free_udp_port, files_directory=tmp_path, lanes=0)
        sender = libnorm_sender(instance, free_udp_port, case)
        send_with_libnorm(sender, case, contents, tmp_path)
        got = collect_with_shoal(link, case, len(contents), tmp_path)
        assert same(case, got, contents)
        if case.loss_percent > 5 and case.parity and not case.congestion_control:
            assert link.stats()["segments_recovered"] > 0
        link.close(0.0)


@pytest.mark.parametrize("case", WATERMARKED, ids=str)
def test_several_libnorm_receivers_get_everything_and_acknowledge_it(
    free_udp_port: int, tmp_path: Path, case: Case
) -> None:
    contents = case.contents()
    options = {"congestion": "norm_cc"} if case.congestion_control else {}
    # libnorm names received files by sender and object, which two receivers in one directory would share.
    caches = [tmp_path / str(node) for node in (LIBNORM, OTHER_LIBNORM)]
    for cache in caches:
        cache.mkdir()
    with Instance(cache_directory=caches[0]) as one, Instance(cache_directory=caches[1]) as other:
        instances = {LIBNORM: one, OTHER_LIBNORM: other}
        receivers = {
            node: libnorm_receiver(instance, free_udp_port, node, case.loss_percent)
            for node, instance in instances.items()
        }
        link = shoal_link(case, free_udp_port, ackers=list(receivers), acker_patience_s=PATIENCE_S, **options)
        last = send_with_shoal(link, case, contents, tmp_path)
        link.request_watermark(last or 0)
        for node, instance in instances.items():
            (got,) = collect_with_libnorm(instance, case, len(contents), [receivers[node]])
            assert same(case, got, contents)
        (outcome,) = wait_for(link, lambda kind, fields: kind == "watermark_done", 1)
        assert outcome["acked"] == [LIBNORM, OTHER_LIBNORM]
        link.close(0.0)


@pytest.mark.parametrize("case", WATERMARKED_BY_LIBNORM, ids=str)
def test_several_shoal_receivers_get_everything_and_acknowledge_it(
    free_udp_port: int, tmp_path: Path, case: Case
) -> None:
    contents = case.contents()
    with Instance() as instance:
        links = []
        for node in (SHOAL, OTHER_SHOAL):
            (directory := tmp_path / str(node)).mkdir()
            links.append(shoal_link(case, free_udp_port, node=node, files_directory=directory, lanes=0))
        sender = libnorm_sender(instance, free_udp_port, case)
        for node in (SHOAL, OTHER_SHOAL):
            sender.add_acking_node(node)
        sender.set_watermark(send_with_libnorm(sender, case, contents, tmp_path))
        for node, link in zip((SHOAL, OTHER_SHOAL), links, strict=True):
            got = collect_with_shoal(link, case, len(contents), tmp_path / str(node))
            assert same(case, got, contents)
        sender.wait_acknowledged(timeout_s=PATIENCE_S)
        for link in links:
            link.close(0.0)
