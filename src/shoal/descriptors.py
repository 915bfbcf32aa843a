"""The descriptors of this process: whether there are enough for one connection more, and for listeners."""

import os

from shoal.errors import LinkError
from shoal.system import descriptor_limits, descriptors_in_use

#: What a connection needs at most to begin with, in pairs: sockets, wake-ups, a probe.
_PAIRS = 4
#: Descriptors that connections of others leave free, as the extension does: for files, for names, for
#: questions how a daemon is.
KEPT_FREE = 8


def check_descriptors() -> None:
    """Look whether a connection can have the descriptors it needs.

    Raises:
        LinkError: this process has nearly all that it may have.
    """
    opened: list[int] = []
    try:
        for _ in range(_PAIRS):
            opened += os.pipe()
    except OSError as error:
        raise LinkError(
            f"there are no descriptors left for a connection ({error.strerror}): this process may have "
            f"{limit()}; raise that (ulimit -n, or LimitNOFILE= of systemd), or have fewer files and "
            "connections open"
        ) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


def limit() -> float:
    """How many descriptors this process may have."""
    return descriptor_limits()[0]


def room_left() -> float:
    """How many more descriptors this process may have."""
    return limit() - descriptors_in_use()
