"""The access rules of a node's listeners: what programs that connect there may do. No sockets here.

A program is the principal that its certificate names, or `anonymous`. The extension looks at what comes over
its links (`shoal._core.Rights`); the rules are read here, and given to it again when the file changes.
"""

import threading
from collections.abc import Iterable
from typing import Any

from shoal import _core
from shoal.config.access import ANONYMOUS, Access, AccessFile
from shoal.errors import LinkRefusedError

#: How often the file is looked at.
LOOK_S = 1.0
#: Principals whose rights are kept; those of the one that came first are made anew when it comes again.
_PRINCIPALS_MAX = 10_000


class LinkAccess:
    """The rules of one node. May be shared between threads.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(self, path: str) -> None:
        self._file = AccessFile(path)
        self._lock = threading.Lock()
        self._rights: dict[str, _core.Rights] = {}

    def admit(self, identity: str, connected: Iterable[str]) -> _core.Rights:
        """The rights of a program that connects; `connected` are the names of those that are.

        Raises:
            LinkRefusedError: its principal has as many connections as its quota allows.
        """
        principal = identity or ANONYMOUS
        with self._lock:
            access = self._file.access
            quota = access.quota(principal)
            count = sum((each or ANONYMOUS) == principal for each in connected)
            if quota is not None and quota.connections is not None and count >= quota.connections:
                raise LinkRefusedError(
                    f"{principal!r} has {count} connections, as many as the quota {quota.name!r} of "
                    f"{access.source} allows"
                )
            found = self._rights.get(principal)
            if found is None:
                while len(self._rights) >= _PRINCIPALS_MAX:
                    del self._rights[next(iter(self._rights))]
                found = self._rights[principal] = _core.Rights(*_of(access, principal))
            return found

    def refresh(self) -> tuple[bool, str | None]:
        """Read the file again if it changed: whether rights did, and what is wrong with the file.

        While something is wrong, the former rules count.
        """
        with self._lock:
            before = self._file.access
            why = self._file.refresh()
            access = self._file.access
            if access is before:
                return False, why
            for principal, rights in self._rights.items():
                rights.replace(*_of(access, principal))
            return True, why


def _of(access: Access, principal: str) -> tuple[Any, ...]:
    """A principal, as the extension takes it."""
    quota = access.quota(principal)
    lines = [
        (rule.name, rule.effect == "allow", list(rule.actions), list(rule.topics))
        for rule in access.rules
        if rule.names(principal)
    ]
    return principal, access.source, lines, None if quota is None else quota.bytes_per_s
