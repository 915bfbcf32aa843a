"""A copy of a store, taken while it runs, and a store made from such a copy."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from shoal.errors import StoreError, StoreLockedError
from shoal.store.role import renew
from shoal.store.status import read_status
from shoal.store.verifying import verify

#: How often it begins anew because retention removed a segment under it.
TRIES_MAX = 5
#: How long a store that runs may take to write its status, which it does every second.
STATUS_S, STATUS_CHECK_S = 10.0, 0.05
_CHUNK_BYTES = 4 << 20


def backup(path: Path, to: Path) -> dict[str, Any]:
    """Copy everything that is durable now, and read the copy whole: what `verify` says of it.

    The store may run, or be stopped or killed. The answer has `end`, the offset after the last message of the
    copy, and `at`: everything that was durable at this time is in it. `restore` makes a store from it.
    """
    if to.exists() and any(to.iterdir()):
        raise StoreError(f"{to} is not empty: a copy needs a directory of its own")
    at = time.time()
    durable = _durable(path, at)
    to.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES_MAX):
        if _copy(path, to, *durable):
            break
        for left in to.iterdir():
            left.unlink()
        durable = _durable(path, at)
    else:
        raise StoreError(f"segments of {path} went faster than they could be copied: keep them longer")
    _sync_directory(to)
    found = verify(to)
    if not found["whole"]:
        raise StoreError(f"the copy in {to} is not whole: {found['damages'] or found['missing']}")
    return found | {"at": at}


def _durable(path: Path, at: float) -> tuple[int, int]:
    """A segment, and a position in it, behind everything that was durable at a time."""
    try:
        # No process has the store open: its log ends with the last frame that can be read.
        found = verify(path)
    except StoreLockedError:
        return _durable_of_running(path, at)
    if not found["whole"]:
        raise StoreError(f"the log in {path} is not whole: {found['damages'] or found['missing']}")
    last = found["segments"][-1]
    return last["number"], last["bytes"]


def _durable_of_running(path: Path, at: float) -> tuple[int, int]:
    """Wait for the next status of a store that runs."""
    deadline = time.monotonic() + STATUS_S
    while (status := read_status(path))["at"] < at:
        if time.monotonic() >= deadline:
            raise StoreError(
                f"The store in {path} runs, and has not written its status for {at - status['at']:.0f} s, so "
                "the copy would miss messages. Make room on its disk, or stop the store and copy it then."
            )
        time.sleep(STATUS_CHECK_S)
    segment, position, _ = status["durable"]
    return segment, position


def restore(copy: Path, to: Path) -> dict[str, Any]:
    """Make a store from a copy, in a directory of its own, and begin a new incarnation: what it has.

    The copy stays as it is. It is read whole first, so that a damaged one makes no store.
    """
    if to.exists() and any(to.iterdir()):
        raise StoreError(f"{to} is not empty: restore into a directory of its own, and move the old one away")
    found = verify(copy)
    if not found["whole"] or found["torn_bytes"]:
        # A copy ends with a frame that was durable: one that was cut there lost messages.
        why = found["damages"] or found["missing"] or f"its last {found['torn_bytes']} bytes cannot be read"
        raise StoreError(f"the copy in {copy} is not whole: {why}")
    segments = sorted(copy.glob("[0-9]*.log"))
    if not segments:
        raise StoreError(f"{copy} has no log: it is no copy of a store")
    # Under another name until it is whole: a restore that was killed leaves nothing that could be started.
    unfinished = to.with_name(f"{to.name}.restoring")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for segment in segments:
        with segment.open("rb") as source, (unfinished / segment.name).open("xb") as made:
            shutil.copyfileobj(source, made, _CHUNK_BYTES)
            made.flush()
            os.fsync(made.fileno())
    former, incarnation = renew(unfinished)
    _sync_directory(unfinished)
    if to.exists():
        to.rmdir()
    unfinished.rename(to)
    _sync_directory(to.parent)
    return found | {"path": str(to), "former": former, "incarnation": incarnation}


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _copy(path: Path, to: Path, last: int, position: int) -> bool:
    """Copy segments up to a position that was durable; false if one went meanwhile."""
    numbers = sorted(int(each.stem) for each in path.glob("[0-9]*.log"))
    wanted = [number for number in numbers if number <= last]
    if not wanted or wanted[-1] != last:
        return False
    for number in wanted:
        name = f"{number:010}.log"
        try:
            with (path / name).open("rb") as source, (to / name).open("xb") as copy:
                length = os.fstat(source.fileno()).st_size
                if number < last:
                    shutil.copyfileobj(source, copy, _CHUNK_BYTES)
                else:
                    _copy_start(source, copy, position)
                    # Behind it nothing was promised; the file is as long as it was made.
                    copy.truncate(length)
                copy.flush()
                os.fsync(copy.fileno())
        except FileNotFoundError:
            return False
    # The oldest ones may have gone, and nothing between.
    return sorted(int(each.stem) for each in path.glob("[0-9]*.log"))[0] <= wanted[0]


def _copy_start(source: Any, copy: Any, count: int) -> None:
    while count:
        chunk = source.read(min(count, _CHUNK_BYTES))
        if not chunk:
            return
        copy.write(chunk)
        count -= len(chunk)
