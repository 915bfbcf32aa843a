"""A copy of a store, taken while it runs."""

import os
import shutil
from pathlib import Path
from typing import Any

from shoal.errors import StoreError
from shoal.store.status import read_status
from shoal.store.verifying import verify

#: How often it begins anew because retention removed a segment under it.
TRIES_MAX = 5
_CHUNK_BYTES = 4 << 20


def backup(path: Path, to: Path) -> dict[str, Any]:
    """Copy everything that was durable a second ago, and read the copy whole: what `verify` says of it.

    Whoever starts a store from the copy begins a new incarnation first (`shoal store renew`).
    """
    if to.exists() and any(to.iterdir()):
        raise StoreError(f"{to} is not empty: a copy needs a directory of its own")
    status = read_status(path)
    to.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES_MAX):
        if _copy(path, to, *status["durable"][:2]):
            break
        for left in to.iterdir():
            left.unlink()
        status = read_status(path)
    else:
        raise StoreError(f"segments of {path} went faster than they could be copied: keep them longer")
    directory = os.open(to, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    found = verify(to)
    if not found["whole"]:
        raise StoreError(f"the copy in {to} is not whole: {found['damages'] or found['missing']}")
    return found


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
