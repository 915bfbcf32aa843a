"""`shoal.norm` as programs use it: sessions on the loopback interface."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from shoal import norm
from shoal.errors import ClosedError, ConfigError, FlushError, FullError

GROUP = "239.192.74.210"
PATIENCE_S = 20.0
NOBODY = 99
E = TypeVar("E")

Open = Callable[..., norm.Session]


@pytest.fixture
def join(port: int) -> Iterator[Open]:
    """Sessions of one group, closed at the end of the test."""
    opened: list[norm.Session] = []
    base = norm.NormConfig(
        group=GROUP, port=port, interface="lo", sync="all", backoff_factor=1, grtt_initial_s=0.002
    )

    def join(**options: Any) -> norm.Session:
        opened.append(norm.Session(base, **options))
        return opened[-1]

    yield join
    for session in opened:
        session.close(0.0)


def wait_for(session: norm.Session, kind: type[E]) -> E:
    """The next event of a kind; what comes before it is passed over."""
    while (event := session.receive(PATIENCE_S)) is not None:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} within {PATIENCE_S} s")


def test_a_file_arrives_with_its_info_and_is_acknowledged(join: Open, tmp_path: Path) -> None:
    (inbox := tmp_path / "inbox").mkdir()
    receiver = join(files_directory=inbox, lanes=0, drop_received=0.05)
    sender = join(lanes=0, ackers=[receiver.node], acker_patience_s=PATIENCE_S)
    content = os.urandom(2_000_000)
    (path := tmp_path / "report").write_bytes(content)
    number = sender.send_file(path, info=b"report")
    outcome = sender.flush(timeout_s=PATIENCE_S)
    assert outcome
    assert (outcome.acked, outcome.silent) == ((receiver.node,), ())
    received = wait_for(receiver, norm.FileReceived)
    assert (received.sender, received.object, received.info) == (sender.node, number, b"report")
    assert received.path is not None
    assert received.path.read_bytes() == content
    assert wait_for(sender, norm.ObjectSent).object == number, "flushing takes no events from others"
    assert receiver.stats()["nacks_sent"] > 0


def test_objects_and_messages_arrive(join: Open) -> None:
    receiver = join(lanes=0)
    sender = join(lanes=2, ackers=[receiver.node], info=b"about the streams")
    sender.send(b"urgent", 0)
    sender.send(b"not so", 1)
    sender.send_data(b"object", info=b"name")
    assert sender.flush(timeout_s=PATIENCE_S)
    events = list(receiver.events(timeout_s=0.5))
    messages = {event.object: event.body for event in events if isinstance(event, norm.MessageReceived)}
    assert messages == {0: b"urgent", 1: b"not so"}
    (data,) = [event for event in events if isinstance(event, norm.DataReceived)]
    assert (data.content, data.info) == (b"object", b"name")
    infos = [event.content for event in events if isinstance(event, norm.InfoReceived)]
    assert sorted(infos) == [b"about the streams", b"about the streams", b"name"]
    assert sender.close(PATIENCE_S)
    assert wait_for(receiver, norm.SenderGone).reason == "ended"


def test_a_closed_session_gives_back_its_descriptors_and_still_tells_what_it_did(
    join: Open, tmp_path: Path
) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    (path := tmp_path / "report").write_bytes(b"content")
    before = descriptors()
    session = join(lanes=1)
    session.send_file(path)
    session.send(b"message")
    assert descriptors() > before
    session.close(PATIENCE_S)
    assert descriptors() <= before
    sent = session.stats()["segments_sent"]
    assert sent > 0
    assert session.grtt_s > 0
    assert session.rate_bytes_per_s is None
    assert session.close(), "as the first time"
    with pytest.raises(ClosedError):
        session.send(b"more")


def test_flushing_names_who_does_not_answer(join: Open) -> None:
    receiver = join(lanes=0)
    sender = join(lanes=0, ackers=[receiver.node, NOBODY], acker_patience_s=0.2)
    sender.send_data(b"x")
    outcome = sender.flush(timeout_s=PATIENCE_S)
    assert not outcome
    assert (outcome.acked, outcome.silent) == ((receiver.node,), (NOBODY,))
    sender.set_ackers([receiver.node])
    assert sender.flush(timeout_s=PATIENCE_S)


def test_flushing_raises_when_time_is_over_first(join: Open) -> None:
    sender = join(ackers=[NOBODY], acker_patience_s=PATIENCE_S)
    sender.send(b"x")
    with pytest.raises(FlushError, match=r"not every acker answered within 0\.1 s"):
        sender.flush(timeout_s=0.1)


def test_flushing_for_nobody_is_refused(join: Open) -> None:
    with pytest.raises(ConfigError, match="ackers is empty"):
        join().flush()


def test_flushing_nothing_is_done_at_once(join: Open) -> None:
    assert join(ackers=[NOBODY]).flush(timeout_s=0.0)


def test_flushing_and_receiving_do_not_disturb_each_other(join: Open) -> None:
    """One thread sends and flushes, while another takes the same session's events."""
    receiver = join(lanes=0)
    sender = join(lanes=0, ackers=[receiver.node])
    told: list[norm.Event] = []
    reading = threading.Thread(target=lambda: told.extend(sender.events()))
    reading.start()
    numbers = []
    for _ in range(20):
        numbers.append(sender.send_data(bytes(10_000)))
        assert sender.flush(timeout_s=PATIENCE_S).acked == (receiver.node,)
    sender.close(PATIENCE_S)
    reading.join(PATIENCE_S)
    assert [event.object for event in told if isinstance(event, norm.WatermarkDone)] == numbers


def test_an_object_waits_for_room(join: Open) -> None:
    sender = join(lanes=0, send_objects_max=1, rate_bytes_per_s=200_000.0)
    sender.send_data(bytes(20_000))
    with pytest.raises(FullError, match="send_objects_max"):
        sender.send_data(b"next", timeout_s=0.0)
    assert sender.send_data(b"next", timeout_s=PATIENCE_S) == 1


def test_a_cancelled_object_is_given_up_by_its_receivers(join: Open, tmp_path: Path) -> None:
    receiver = join(lanes=0)
    sender = join(lanes=0, rate_bytes_per_s=1e6)
    (path := tmp_path / "long").write_bytes(bytes(50_000_000))
    number = sender.send_file(path)
    opened = wait_for(receiver, norm.ObjectOpened)
    assert (opened.object, opened.kind, opened.bytes) == (number, "file", 50_000_000)
    assert sender.cancel(number)
    assert not sender.cancel(number)
    assert wait_for(receiver, norm.ObjectAborted).reason == "squelched"
    sender.send_data(b"what follows")
    assert wait_for(receiver, norm.DataReceived).content == b"what follows"


def test_commands_and_questions_reach_everybody(join: Open) -> None:
    receiver = join(lanes=0)
    sender = join(lanes=0)
    assert sender.send_command(b"attention")
    assert wait_for(receiver, norm.CommandReceived) == norm.CommandReceived(
        sender=sender.node, content=b"attention"
    )
    assert sender.request_acks([receiver.node, NOBODY], ack_type=17, ack_id=4)
    assert not sender.request_acks([receiver.node]), "the first one is open"
    assert wait_for(receiver, norm.AckGiven).ack_type == 17
    done = wait_for(sender, norm.AcksDone)
    assert (done.ack_type, done.ack_id, done.acked, done.silent) == (17, 4, (receiver.node,), (NOBODY,))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda session: session.send(b"x", 1), "lane is 1, and must be below lanes, which are 1"),
        (lambda session: session.send_command(b"x", times=0), "times is 0"),
        (lambda session: session.send_command(bytes(1401)), "a command has 1401 bytes"),
        (lambda session: session.request_acks([NOBODY], ack_type=3), "ack_type is 3"),
        (lambda session: session.request_acks([NOBODY], ack_id=256), "ack_id is 256"),
        (lambda session: session.set_ackers([0]), r"ackers is \(0,\)"),
        (lambda session: session.request_watermark(7), "object is 7"),
        (lambda session: session.request_watermark(-1), "object is -1, and must be from 0 to 65535"),
        (lambda session: session.cancel(70_000), "object is 70000"),
        (lambda session: session.send_data(b""), "at least one byte"),
        (lambda session: session.send_data(b"x", info=bytes(1401)), "the info does not fit"),
    ],
)
def test_what_cannot_be_done_is_refused(
    join: Open, call: Callable[[norm.Session], object], wanted: str
) -> None:
    with pytest.raises(ConfigError, match=wanted):
        call(join())


def test_a_directory_for_files_must_exist(join: Open, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"files_directory is .* a directory that exists"):
        join(files_directory=tmp_path / "nowhere")


def test_a_fixed_rate_is_kept_and_norm_cc_finds_its_own(join: Open) -> None:
    assert join(rate_bytes_per_s=1e6).rate_bytes_per_s == 1e6
    assert join().rate_bytes_per_s is None
    receiver = join(lanes=0)
    sender = join(lanes=0, congestion="norm_cc", ackers=[receiver.node], acker_patience_s=PATIENCE_S)
    began = sender.rate_bytes_per_s
    assert began is not None
    sender.send_data(os.urandom(5_000_000))
    assert sender.flush(timeout_s=PATIENCE_S)
    assert sender.rate_bytes_per_s != began
    assert 0 < sender.grtt_s < 1


def test_parity_is_sent_and_used(join: Open) -> None:
    receiver = join(lanes=0, drop_received=0.1, nacking="none", seed=5)
    sender = join(lanes=0, rate_bytes_per_s=20e6, parity_symbols=40, auto_parity=40, interleave_blocks=4)
    content = os.urandom(500_000)
    sender.send_data(content)
    assert wait_for(receiver, norm.DataReceived).content == content
    assert sender.stats()["parity_sent"] > 0
    assert receiver.stats()["segments_recovered"] > 0
    assert receiver.stats()["nacks_sent"] == 0


def test_what_was_chosen_is_told(join: Open) -> None:
    session = join()
    assert (session.config.node, session.config.sync) == (session.node, "all")
    assert session.config.instance is not None
    assert repr(session) == f"<shoal.norm.Session node {session.node} on {GROUP} port {session.config.port}>"


def test_a_closed_session_refuses_work_and_ends_its_events(join: Open) -> None:
    with join() as session:
        pass
    with pytest.raises(ClosedError):
        session.send_data(b"x")
    assert all(isinstance(event, norm.Flushed) for event in session.events())
    with pytest.raises(ClosedError):
        session.receive()


def test_a_session_that_nobody_has_is_closed(port: int) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()
    before = descriptors()
    session = norm.Session(group=GROUP, port=port, interface="lo")
    assert descriptors() > before
    del session
    assert descriptors() <= before


def test_a_program_that_forgets_to_close_ends_and_has_sent(join: Open, port: int) -> None:
    """Also while a thread of it waits for events."""
    receiver = join(lanes=0)
    program = f"""
import threading, shoal.norm
session = shoal.norm.Session(group={GROUP!r}, port={port}, interface="lo")
threading.Thread(target=lambda: list(session.events()), daemon=True).start()
session.send(b"goodbye")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=PATIENCE_S, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert wait_for(receiver, norm.MessageReceived).body == b"goodbye"
