"""Gives up in a forked child what its parent listens with: the port would be taken while the child lives.

The child has no use for it: a connection works only in the process that made it.
"""

import os
import socket
from pathlib import Path

from shoal.system import after_fork

#: Where this process listens: host and port.
_places: set[tuple[str, int]] = set()
#: Names the descriptors of a process.
_DESCRIPTORS = Path("/dev/fd")


def note(host: str, port: int) -> None:
    """A link listens there."""
    _places.add((host, port))


def forget(host: str, port: int) -> None:
    """Nothing of ours listens there any more: the next listener there may well want its children to."""
    _places.discard((host, port))


def _place(descriptor: int) -> tuple[str, int] | None:
    """Where a descriptor listens; `None` if it does not."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return sock.getsockname()[:2] if listens else None
    except OSError:
        return None
    finally:
        # It belongs to other code.
        sock.detach()


def _release() -> None:
    if not _places:
        return
    try:
        descriptors = [int(each.name) for each in _DESCRIPTORS.iterdir()]
        nothing = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        # Then the port stays taken, and nothing else is wrong.
        return
    for descriptor in descriptors:
        if _place(descriptor) in _places:
            # The owner of the number may close it: it has to stay one.
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
    _places.clear()


after_fork(_release)
