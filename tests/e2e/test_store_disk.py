"""A store on a disk that is really full."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal._core import Log, encode_record
from shoal.errors import StoreFullError

SEGMENT_BYTES = 256 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Three megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", path], capture_output=True, check=False
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
