"""A copy of a store that runs becomes a store of its own."""

import itertools
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
        # What the status says is durable is what the copy has.
        bus.store._write_status()
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
            desk.store._write_status()
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
