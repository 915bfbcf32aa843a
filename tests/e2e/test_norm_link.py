"""A bare NORM link: what closing it answers, what works afterwards, what it says when the disk refuses."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal._core import NormLink
from shoal.errors import ClosedError, ConfigError, LinkError

GROUP = "239.192.74.208"
SENDER, RECEIVER, NOBODY = 1, 2, 99
PATIENCE_S = 20.0


def link(node: int, port: int, **options: Any) -> NormLink:
    defaults: dict[str, Any] = {"sync": "all", "backoff_factor": 1, "grtt_initial_s": 0.002}
    return NormLink(node, group=GROUP, port=port, interface="lo", seed=node, **(defaults | options))


def wait_for(made: NormLink, wanted: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for kind, fields in made.receive(timeout_s=0.5):
            assert kind != "file_received" or wanted == kind, "a file that failed was not received"
            if kind == wanted:
                return fields
    raise AssertionError(f"no {wanted} within {PATIENCE_S} s")


def test_closing_is_a_success_when_the_acker_has_everything(port: int) -> None:
    receiver = link(RECEIVER, port, lanes=0)
    sender = link(SENDER, port, ackers=[RECEIVER])
    sender.send(b"x" * 100_000)
    assert sender.close(PATIENCE_S)
    assert wait_for(receiver, "message")["body"] == b"x" * 100_000
    receiver.close(0.0)


def test_closing_is_no_success_when_an_acker_never_answered(port: int) -> None:
    """It is announced often enough long before, which nobody heard."""
    sender = link(SENDER, port, ackers=[NOBODY], acker_patience_s=0.3)
    sender.send(b"x")
    began = time.monotonic()
    assert not sender.close(PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S / 2, "who stopped answering is not waited for"


def test_closing_is_no_success_when_one_of_two_ackers_is_gone(port: int) -> None:
    receiver = link(RECEIVER, port, lanes=0)
    sender = link(SENDER, port, ackers=[RECEIVER, NOBODY], acker_patience_s=0.3)
    sender.send(b"x")
    assert not sender.close(PATIENCE_S)
    receiver.close(0.0)


ONE_RUN = """
import os, signal, sys
from shoal._core import NormLink

run, port, group, node, acker = sys.argv[1:]
sender = NormLink(
    int(node), group=group, port=int(port), interface="lo", seed=1, backoff_factor=1, ackers=[int(acker)]
)
sender.send(f"message of {run}".encode())
number = sender.send_data(f"object of {run}".encode())
sender.request_watermark(0)
sender.request_watermark(number)
done = 0
while done < 2:
    for kind, fields in sender.receive(timeout_s=20.0):
        if kind == "watermark_done":
            assert fields["acked"] == [int(acker)], fields
            done += 1
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_sender_that_was_killed_and_runs_again_is_heard_again(port: int) -> None:
    """What it is told to have been acknowledged was received."""
    receiver = link(RECEIVER, port, lanes=0)
    for run in ("run 0", "run 1"):
        arguments = [run, str(port), GROUP, str(SENDER), str(RECEIVER)]
        ended = subprocess.run([sys.executable, "-c", ONE_RUN, *arguments], timeout=60, check=False)
        assert ended.returncode == -signal.SIGKILL
        wanted = {("message", f"message of {run}".encode()), ("data_received", f"object of {run}".encode())}
        deadline = time.monotonic() + PATIENCE_S
        while wanted and time.monotonic() < deadline:
            for kind, fields in receiver.receive(timeout_s=0.5):
                wanted.discard((kind, fields.get("body", fields.get("content"))))
        assert not wanted, f"{run} was acknowledged, but {wanted} did not come"
    receiver.close(0.0)


def test_a_stream_is_opened_before_its_first_message_comes(port: int) -> None:
    receiver = link(RECEIVER, port, lanes=0)
    sender = link(SENDER, port, ackers=[RECEIVER])
    sender.send(b"x")
    assert sender.close(PATIENCE_S)
    kinds: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while "message" not in kinds and time.monotonic() < deadline:
        kinds += [kind for kind, _ in receiver.receive(timeout_s=0.5)]
    assert kinds.index("stream_opened") < kinds.index("message")
    receiver.close(0.0)


def test_closing_without_ackers_is_a_success_once_everything_was_announced(port: int) -> None:
    sender = link(SENDER, port, robust_factor=3)
    sender.send(b"x")
    assert sender.close(PATIENCE_S)


def test_a_file_that_is_not_there_is_refused_at_once(port: int, tmp_path: Path) -> None:
    sender = link(SENDER, port, lanes=0)
    with pytest.raises(LinkError, match="No such file"):
        sender.send_file(tmp_path / "nowhere")
    sender.close(0.0)


def test_a_file_that_becomes_unreadable_while_it_is_sent_is_told(port: int, tmp_path: Path) -> None:
    # So slow that most of it is read after it shrank.
    sender = link(SENDER, port, lanes=0, rate_bytes_per_s=2e6)
    (path := tmp_path / "shrinks").write_bytes(bytes(20_000_000))
    number = sender.send_file(path)
    path.write_bytes(b"")
    fields = wait_for(sender, "file_failed")
    assert (fields["sending"], fields["stream"]) == (True, number)
    assert "cannot be read" in fields["why"]
    assert "cannot be read" in (sender.take_file_error() or "")
    assert sender.take_file_error() is None, "it is told once"
    sender.close(0.0)


def test_a_file_that_cannot_be_written_is_told_and_not_received(port: int, tmp_path: Path) -> None:
    (directory := tmp_path / "goes").mkdir()
    receiver = link(RECEIVER, port, lanes=0, files_directory=directory)
    directory.rmdir()
    sender = link(SENDER, port, lanes=0, ackers=[RECEIVER])
    (path := tmp_path / "file").write_bytes(bytes(300_000))
    number = sender.send_file(path)
    fields = wait_for(receiver, "file_failed")
    assert (fields["sending"], fields["sender"], fields["stream"]) == (False, SENDER, number)
    assert str(directory) in fields["why"]
    assert "cannot be written" in fields["why"]
    # The link goes on: the next object arrives.
    sender.send_data(b"next")
    assert wait_for(receiver, "data_received")["content"] == b"next"
    sender.close(0.2)
    receiver.close(0.0)


CALLS: dict[str, Callable[[NormLink], object]] = {
    "send": lambda made: made.send(b"x"),
    "send_data": lambda made: made.send_data(b"x"),
    "send_file": lambda made: made.send_file(__file__),
    "cancel_object": lambda made: made.cancel_object(0),
    "send_command": lambda made: made.send_command(b"x"),
    "request_acks": lambda made: made.request_acks(16, 1, [RECEIVER]),
    "set_ackers": lambda made: made.set_ackers([RECEIVER]),
    "request_watermark": lambda made: made.request_watermark(),
    "receive": lambda made: made.receive(timeout_s=0.0),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_link_refuses_work(port: int, call: str) -> None:
    made = link(SENDER, port)
    made.close(0.0)
    with pytest.raises(ClosedError):
        CALLS[call](made)
    assert made.stats()["datagrams_sent"] >= 0


def test_closing_again_repeats_the_answer(port: int) -> None:
    sender = link(SENDER, port, ackers=[NOBODY], acker_patience_s=0.1)
    sender.send(b"x")
    assert not sender.close(0.5)
    assert not sender.close(0.0)


def test_what_arrived_before_closing_can_still_be_received(port: int) -> None:
    receiver = link(RECEIVER, port, lanes=0)
    sender = link(SENDER, port, ackers=[RECEIVER])
    sender.send(b"kept")
    assert sender.close(PATIENCE_S)
    receiver.close(0.0)
    assert "message" in [kind for kind, _ in receiver.receive()]
    with pytest.raises(ClosedError):
        receiver.receive()


def test_closing_wakes_whoever_waits(port: int) -> None:
    made = link(SENDER, port)
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(ClosedError):
            made.receive()
        ended.set()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    made.close(0.0)
    assert ended.wait(PATIENCE_S)
    waiting.join()


def test_waiting_can_be_interrupted(port: int) -> None:
    made = link(SENDER, port, receive=False, lanes=0)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        made.receive()
    made.close(0.0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_cannot_use_the_link_of_its_parent(port: int) -> None:
    made = link(SENDER, port)
    child = os.fork()
    if child == 0:
        refused = []
        for call in CALLS.values():
            try:
                call(made)
            except RuntimeError as error:
                refused.append("fork" in str(error))
        closed = made.close(1.0)
        del made
        os._exit(0 if refused == [True] * len(CALLS) and not closed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    made.send(b"the parent goes on")
    made.close(0.0)


def test_a_question_that_cannot_be_asked_says_why(port: int) -> None:
    made = link(SENDER, port)
    with pytest.raises(ConfigError, match="ack_type is 15, and must be from 16 to 255"):
        made.request_acks(15, 1, [RECEIVER])
    with pytest.raises(ConfigError, match="nodes are 351, and must be 1 to 350"):
        made.request_acks(16, 1, list(range(2, 353)))
    with pytest.raises(ConfigError, match="nodes are 0"):
        made.request_acks(16, 1, [])
    with pytest.raises(ConfigError, match="which is our own"):
        made.request_acks(16, 1, [SENDER])
    assert made.request_acks(16, 1, [RECEIVER])
    assert not made.request_acks(16, 2, [RECEIVER]), "the first one is still open"
    made.close(0.0)


def test_a_command_that_cannot_be_said_says_why(port: int) -> None:
    made = link(SENDER, port)
    with pytest.raises(ConfigError, match="times is 0, and must be at least 1"):
        made.send_command(b"x", 0)
    with pytest.raises(ConfigError, match="a command has 1401 bytes, and must fit into a segment of 1400"):
        made.send_command(bytes(1401))
    made.close(0.0)


def test_a_watermark_of_nothing_says_so(port: int) -> None:
    made = link(SENDER, port, ackers=[RECEIVER])
    with pytest.raises(ConfigError, match="object is 77, and must be a stream or an object"):
        made.request_watermark(77)
    made.close(0.0)


def test_a_cancelled_object_is_not_sent(port: int, tmp_path: Path) -> None:
    sender = link(SENDER, port, lanes=0, rate_bytes_per_s=1e5)
    (path := tmp_path / "long").write_bytes(bytes(10_000_000))
    number = sender.send_file(path)
    assert number is not None
    assert sender.cancel_object(number)
    assert wait_for(sender, "object_released")["stream"] == number
    assert not sender.cancel_object(number)
    sender.close(0.0)
