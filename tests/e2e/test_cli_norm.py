"""`shoal norm send` and `shoal norm receive` as users run them: real processes on the loopback interface."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal import norm

SHOAL = [sys.executable, "-m", "shoal.cli", "norm"]
GROUP = "239.192.74.212"
PATIENCE_S = 60.0

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture
def start(port: int) -> Iterator[Start]:
    """`start("send", "file")`: a command in this test's group, killed at its end."""
    started: list[Process] = []

    def start(command: str, *arguments: object) -> Process:
        where = ["--group", GROUP, "--port", str(port), "--interface", "lo"]
        process = subprocess.Popen(
            [*SHOAL, command, *map(str, arguments), *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(process: Process) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output, errors


def wait_until_it_listens(process: Process) -> int:
    """The node id it has."""
    assert process.stderr is not None
    told = process.stderr.readline().split()
    assert told[3] == "node", told
    return int(told[4])


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_file(path: Path, count: int, seed: int) -> Path:
    path.write_bytes(random.Random(seed).randbytes(count))
    return path


def test_fifty_megabytes_reach_two_lossy_receivers(start: Start, tmp_path: Path) -> None:
    large = make_file(tmp_path / "large.bin", 50_000_000, seed=1)
    small = make_file(tmp_path / "small.bin", 1_234_567, seed=2)
    receivers = {
        node: start("receive", tmp_path / f"inbox-{node}", "--node", node, "--count", 2, "--drop", 0.05)
        for node in (1001, 1002)
    }
    assert [wait_until_it_listens(receiver) for receiver in receivers.values()] == [1001, 1002]
    sender = start("send", large, small, "--to", 1001, "--to", 1002, "--rate", 400, "--parity", 16)
    status, output, errors = finish(sender)
    assert (status, errors) == (0, "")
    assert sorted(output.splitlines()) == [
        "confirmed by 1001",
        "confirmed by 1002",
        f"sent {large} 50000000 bytes",
        f"sent {small} 1234567 bytes",
    ]
    for node, receiver in receivers.items():
        status, output, errors = finish(receiver)
        assert (status, errors) == (0, "")
        inbox = tmp_path / f"inbox-{node}"
        told = sorted(line.rsplit(" from ", 1)[0] for line in output.splitlines())
        assert told == [f"{inbox}/large.bin 50000000 bytes", f"{inbox}/small.bin 1234567 bytes"]
        assert digest(inbox / "large.bin") == digest(large)
        assert digest(inbox / "small.bin") == digest(small)
        assert len(list(inbox.iterdir())) == 2, "nothing else is left"


def test_without_a_rate_the_sender_finds_one(start: Start, tmp_path: Path) -> None:
    path = make_file(tmp_path / "file.bin", 3_000_000, seed=3)
    receiver = start("receive", tmp_path / "inbox", "--count", 1, "--json")
    node = wait_until_it_listens(receiver)
    assert finish(start("send", path, "--to", node))[0] == 0
    status, output, _ = finish(receiver)
    assert status == 0
    told = json.loads(output)
    assert (told["path"], told["bytes"]) == (str(tmp_path / "inbox/file.bin"), 3_000_000)
    assert digest(Path(told["path"])) == digest(path)


def test_a_receiver_that_does_not_confirm_is_named(start: Start, tmp_path: Path) -> None:
    path = make_file(tmp_path / "file", 1000, seed=4)
    status, output, errors = finish(start("send", path, "--to", "10.0.0.9", "--to", "0x4d", "--wait", 1))
    assert (status, output) == (1, f"sent {path} 1000 bytes\n")
    assert errors == f"shoal norm send: not confirmed by 77, {10 << 24 | 9}\n"


def test_nobody_has_to_confirm(start: Start, tmp_path: Path) -> None:
    path = make_file(tmp_path / "file", 1000, seed=5)
    status, output, errors = finish(start("send", path))
    assert (status, output) == (0, f"sent {path} 1000 bytes\n")
    assert errors.startswith(f"shoal norm send: no receiver answered on {GROUP} port ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("info", "names"),
    [
        (b"report", ["report", "report.2"]),
        (b"../../etc/passwd", ["passwd"]),
        (b"c:\\temp\\report", ["report.2"]),
        (b"..", None),
        (b"\xff\xfe", None),
        (b"two\nlines", None),
        (b"", None),
    ],
)
def test_a_received_file_never_leaves_its_directory_nor_replaces_another(
    start: Start, port: int, tmp_path: Path, info: bytes, names: list[str] | None
) -> None:
    (inbox := tmp_path / "inbox").mkdir()
    (inbox / "report").write_bytes(b"mine")
    path = make_file(tmp_path / "file", 1000, seed=6)
    receiver = start("receive", inbox, "--count", 1)
    node = wait_until_it_listens(receiver)
    with norm.Session(group=GROUP, port=port, interface="lo", lanes=0, ackers=[node]) as session:
        number = session.send_file(path, info=info)
        assert session.flush(timeout_s=PATIENCE_S)
        fallback = f"{session.node}-{session.config.instance}-{number}"
    assert finish(receiver)[0] == 0
    assert (inbox / "report").read_bytes() == b"mine"
    assert (inbox / (names[-1] if names else fallback)).read_bytes() == path.read_bytes()
    assert len(list(inbox.iterdir())) == 2


def test_a_file_that_becomes_unreadable_is_a_failure(start: Start, tmp_path: Path) -> None:
    (path := tmp_path / "shrinks").write_bytes(bytes(20_000_000))
    receiver = start("receive", tmp_path / "inbox", "--json")
    wait_until_it_listens(receiver)
    sender = start("send", path, "--rate", 8)
    while not list(tmp_path.glob("inbox/.incoming-*/*")):
        assert sender.poll() is None
        time.sleep(0.01)
    os.truncate(path, 0)
    status, _, errors = finish(sender)
    assert status == 1
    assert errors.startswith(f"shoal norm send: {path}: a file being sent cannot be read")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["send", "/nowhere/to/be/found"], 2, "does not exist"),
        (["send", "/dev/null/x"], 2, "does not exist"),
        (["send", "/dev/zero"], 1, "/dev/zero is no regular file"),
        (["send", __file__, "--to", "nobody"], 2, "'nobody' is no node id"),
        (["send", __file__, "--to", "0"], 2, "ackers is (0,), and must be ids of other nodes"),
        (["send", __file__, "--parity", "200"], 2, "parity_symbols is 200, and must be from 0 to 191"),
        (["send", __file__, "--auto-parity", "2"], 2, "auto_parity is 2, and must be at most parity_symbols"),
        (["send", __file__, "--rate", "0"], 2, "rate_bytes_per_s is 0.0, and must be at least 1"),
        (["receive", __file__], 1, "File exists"),
        (["receive", "INBOX", "--timeout", "0.1"], 1, "nothing arrived within 0.1 s"),
    ],
)
def test_a_mistake_is_told(
    start: Start, tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    where = [str(tmp_path / "inbox") if argument == "INBOX" else argument for argument in arguments]
    done, output, errors = finish(start(*where))
    assert (done, output) == (status, "")
    assert said in errors


def test_an_empty_file_is_refused_before_anything_is_sent(start: Start, tmp_path: Path) -> None:
    (path := tmp_path / "empty").write_bytes(b"")
    assert finish(start("send", __file__, path)) == (
        1,
        "",
        f"shoal norm send: {path} is empty, and NORM has no empty objects: leave it out\n",
    )


def test_a_file_that_takes_longer_than_the_timeout_arrives(start: Start, tmp_path: Path) -> None:
    # It takes six seconds, and has begun before anybody waits for it.
    path = make_file(tmp_path / "file", 750_000, seed=6)
    sender = start("send", path, "--rate", 1, "--to", 1001)
    receiver = start("receive", tmp_path / "inbox", "--node", 1001, "--count", 1, "--timeout", 3)
    assert finish(receiver)[0] == 0
    assert finish(sender)[0] == 0
    assert digest(tmp_path / "inbox/file") == digest(path)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_quietly_and_leaves_nothing_behind(
    start: Start, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    receiver = start("receive", tmp_path / "inbox")
    wait_until_it_listens(receiver)
    start("send", make_file(tmp_path / "file", 10_000_000, seed=7), "--rate", 8)
    deadline = time.monotonic() + PATIENCE_S
    while not list((tmp_path / "inbox").glob(".incoming-*/*")):
        assert time.monotonic() < deadline, "no part of it arrived"
        time.sleep(0.01)
    receiver.send_signal(number)
    assert finish(receiver) == (status, "", "")
    assert list((tmp_path / "inbox").iterdir()) == []
