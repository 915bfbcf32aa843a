"""A bare NORM link: what closing it answers, and what it says about files the disk refuses."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from shoal._core import NormLink
from shoal.errors import LinkError

GROUP = "239.192.74.208"
SENDER, RECEIVER, NOBODY = 1, 2, 99
PATIENCE_S = 20.0


@pytest.fixture
def port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


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
