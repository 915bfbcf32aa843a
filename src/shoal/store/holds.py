"""Named marks in the log: retention removes nothing at a mark or behind it."""

import struct

from shoal._core import Log
from shoal.errors import StoreRefusedError

_PREFIX = "hold/"
_OFFSET = struct.Struct("<Q")


def holds_of(log: Log) -> dict[str, int]:
    """Every mark, by its name."""
    items = log.items(_PREFIX)
    return {key.removeprefix(_PREFIX): _OFFSET.unpack(value)[0] for key, value in items}


def hold(log: Log, name: str, offset: int) -> None:
    """Set a mark, or move it."""
    if not name:
        raise StoreRefusedError("a hold needs a name")
    if not 0 <= offset < 1 << 63:
        raise StoreRefusedError(f"a hold is at an offset from 0 on, not at {offset}")
    log.put(_PREFIX + name, _OFFSET.pack(offset))


def release(log: Log, name: str) -> bool:
    """Take a mark away; whether there was one."""
    if log.get(_PREFIX + name) is None:
        return False
    log.put(_PREFIX + name, None)
    return True
