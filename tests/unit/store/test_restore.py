"""A copy of a store that runs becomes a store of its own."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.errors import StoreError
from shoal.store import backup as copies
from shoal.store.backup import backup, restore

_names = itertools.count()


def copied(tmp_path: Path) -> tuple[Path, str]:
    """A copy of a store that runs, with five messages of a queue of which two are acknowledged."""
    with shoal.connect(f"inproc://restore-{next(_names)}", store=tmp_path / "data") as bus:
        for number in range(5):
            bus.queue("q").send(number)
        with bus.queue("q").consume(ack="manual") as consumer:
            for _ in range(2):
                message = consumer.receive(10)
                assert message is not None
                consumer.ack(message)
        backup(tmp_path / "data", tmp_path / "copy")
        return tmp_path / "copy", bus.store.log.incarnation


def test_a_restored_store_has_what_the_copy_has_and_another_incarnation(tmp_path: Path) -> None:
    copy, incarnation = copied(tmp_path)
    before = {each.name: each.read_bytes() for each in copy.iterdir()}
    found = restore(copy, tmp_path / "new")
    assert found["former"] == incarnation != found["incarnation"]
    assert {each.name: each.read_bytes() for each in copy.iterdir()} == before, "the copy stays as it is"
    with shoal.connect(f"inproc://restore-{next(_names)}", store=tmp_path / "new") as bus:
        assert bus.store.log.incarnation == found["incarnation"]
        taken = [bus.queue("q").receive(10) for _ in range(3)]
        assert [message and message.body for message in taken] == [2, 3, 4]
        bus.queue("q").send("new")
        message = bus.queue("q").receive(10)
        assert message is not None
        assert message.body == "new"


def test_what_is_not_empty_or_not_whole_is_refused(tmp_path: Path) -> None:
    copy, _ = copied(tmp_path)
    with pytest.raises(StoreError, match="is not empty"):
        restore(copy, tmp_path / "data")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(StoreError):
        restore(tmp_path / "nothing", tmp_path / "new")
    segment = sorted(copy.glob("*.log"))[0]
    content = bytearray(segment.read_bytes())
    content[len(bytes(content).rstrip(bytes(1))) - 10] ^= 255
    segment.write_bytes(content)
    with pytest.raises(StoreError, match="is not whole"):
        restore(copy, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_restore_that_was_killed_leaves_nothing_that_could_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, _ = copied(tmp_path)

    def killed(path: Path) -> tuple[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(copies, "renew", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(copy, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.undo()
    restore(copy, tmp_path / "new")
    assert (tmp_path / "new").exists()


@pytest.mark.parametrize("is_restored", [True, False])
def test_a_worker_that_lives_on_finishes_no_job_of_the_store_that_comes_next(
    tmp_path: Path, is_restored: bool
) -> None:
    domain = f"inproc://restore-{next(_names)}"
    with shoal.connect(domain) as worker:
        with shoal.connect(domain, store=tmp_path / "data") as desk:
            desk.queue("q").send("first")
            consumer = worker.queue("q").consume(prefetch=100)
            assert consumer.receive(10) is not None
            backup(tmp_path / "data", tmp_path / "copy")
            for number in range(10):
                desk.queue("q").send(number)
            for _ in range(10):
                assert consumer.receive(10) is not None
            # The worker's client stands still while the store is replaced, so that senders come first.
            busy = worker._connection.channel().lock
            busy.acquire()
        try:
            if is_restored:
                restore(tmp_path / "copy", tmp_path / "new")
            desk = shoal.connect(domain, store=tmp_path / "new")
            for number in range(10):
                desk.queue("q").send(f"new {number}", timeout_s=10)
        finally:
            busy.release()
        with desk:
            got: set[object] = set()
            while len(got & {f"new {number}" for number in range(10)}) < 10:
                message = consumer.receive(10)
                assert message is not None, f"only {got} came"
                got.add(message.body)


def test_a_copy_of_a_store_that_runs_has_all_that_was_stored_before_it_began(tmp_path: Path) -> None:
    with shoal.connect(f"inproc://restore-{next(_names)}", store=tmp_path / "data") as bus:
        for number in range(100):
            bus.queue("q").send(number)
        stored = bus.store.log.durable_end
        found = backup(tmp_path / "data", tmp_path / "copy")
        assert found["messages"] == 100
        assert found["end"] >= stored


def test_a_copy_of_a_store_that_was_killed_has_all_that_it_stored(tmp_path: Path) -> None:
    program = f"""
import os, shoal
with shoal.connect("inproc://killed", store={str(tmp_path / "data")!r}) as bus:
    for number in range(100):
        bus.queue("q").send(number)
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    # And a frame that it was writing.
    last = sorted((tmp_path / "data").glob("[0-9]*.log"))[-1]
    content = last.read_bytes()
    with last.open("r+b") as segment:
        segment.seek(len(content.rstrip(bytes(1))) + 64)
        segment.write(b"torn")
    before = last.read_bytes()
    assert backup(tmp_path / "data", tmp_path / "copy")["messages"] == 100
    assert last.read_bytes() == before, "the store is left as it was"
    restore(tmp_path / "copy", tmp_path / "new")
    with shoal.connect(f"inproc://restore-{next(_names)}", store=tmp_path / "new") as bus:
        assert bus.queue("q").purge() == 100


def test_a_store_that_tells_nothing_is_not_copied_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "STATUS_S", 0.2)
    with shoal.connect(f"inproc://restore-{next(_names)}", store=tmp_path / "data") as bus:
        bus.queue("q").send("one")
        monkeypatch.setattr("shoal.store.role.write_status", lambda path, status: None)
        with pytest.raises(StoreError, match="has not written its status"):
            backup(tmp_path / "data", tmp_path / "copy")


def test_a_program_that_lives_on_commits_to_the_restored_store(tmp_path: Path) -> None:
    domain = f"inproc://restore-{next(_names)}"
    with shoal.connect(domain) as program:
        with shoal.connect(domain, store=tmp_path / "data"):
            for number in range(4):
                with program.transaction() as transaction:
                    transaction.send("q", number)
                if number == 0:
                    backup(tmp_path / "data", tmp_path / "copy")
        restore(tmp_path / "copy", tmp_path / "new")
        with shoal.connect(domain, store=tmp_path / "new") as desk:
            for number in range(2):
                with program.transaction() as transaction:
                    transaction.send("q", f"new {number}")
            taken = [desk.queue("q").receive(10) for _ in range(3)]
            assert [message and message.body for message in taken] == [0, "new 0", "new 1"]
