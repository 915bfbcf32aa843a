"""A store on a disk that is really full."""

import itertools
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import PATIENCE_S

import shoal
from shoal._core import Log, encode_record
from shoal.config import ConnectionConfig
from shoal.errors import StoreFullError
from shoal.store import Store, resolve

SEGMENT_BYTES = 256 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Eight megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", path], capture_output=True, check=False
    )
    if mounted.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"no disk of our own: {mounted.stderr.decode()}")
        pytest.skip("mounting a disk of our own needs root")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def append(log: Log) -> None:
    log.append(1, 1, [(None, 1, encode_record("t", secrets.token_bytes(10_000)))])
    log.sync()


def fill(log: Log) -> None:
    for _ in range(1000):
        append(log)


def test_a_full_disk_refuses_messages_takes_deletions_and_goes_on(small_disk: Path) -> None:
    log = Log(small_disk, store_id=1, incarnation=os.urandom(16), segment_bytes=SEGMENT_BYTES)
    with pytest.raises(StoreFullError, match="the disk is full: no room for another segment"):
        fill(log)
    end = log.end
    assert end > 100
    # Acknowledgements and the like still fit: there are segments for them.
    for number in range(3000):
        log.put("acknowledged", b"%d" % number)
    log.sync()
    with pytest.raises(StoreFullError):
        fill(log)
    end = log.end
    log.trim(end // 2)
    append(log)
    assert log.end == end + 1
    log.close()
    log = Log(small_disk, store_id=1, incarnation=os.urandom(16), segment_bytes=SEGMENT_BYTES)
    assert (log.end, log.get("acknowledged")) == (end + 1, b"2999")
    log.close()


def test_a_store_on_a_full_disk_refuses_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    domain = secrets.token_hex(8)
    room = {"segment_bytes": SEGMENT_BYTES, "min_free_bytes": 512 << 10, "warn_free_bytes": 1 << 20}
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(3 << 20))

    def open_store() -> Store:
        return Store(
            resolve(small_disk / "data", (), **room), ConnectionConfig(scheme="inproc", domain=domain)
        )

    def send_until_refused(bus: shoal.Bus) -> int:
        for number in itertools.count():
            try:
                bus.queue("jobs").send(number.to_bytes(4, "big") + bytes(10_000), timeout_s=PATIENCE_S)
            except StoreFullError:
                return number
        raise AssertionError

    with shoal.connect(f"inproc://{domain}") as bus:
        with open_store() as store:
            kept = send_until_refused(bus)
            assert kept > 50
            with bus.queue("jobs").consume() as consumer:
                for number in range(10):
                    message = consumer.receive(PATIENCE_S)
                    assert message is not None
                    assert message.body[:4] == number.to_bytes(4, "big")
            assert not store.status()["state"].startswith("failed")
            ballast.unlink()
            until = time.monotonic() + PATIENCE_S
            while (more := send_until_refused(bus)) == 0:
                assert time.monotonic() < until, "there is room again, and nobody noticed"
                time.sleep(0.1)
        with open_store():
            waiting = [message.body[:4] for message in bus.queue("jobs").browse(timeout_s=PATIENCE_S)]
    assert waiting == [number.to_bytes(4, "big") for number in [*range(10, kept), *range(more)]]
