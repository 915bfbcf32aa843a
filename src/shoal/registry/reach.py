"""Whether a daemon's address accepts a connection now, asked again after a second at the earliest."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable

from shoal.link.directory import Endpoint

#: How long a connection may take.
CONNECT_S = 0.3
#: How long an answer counts.
KNOWN_S = 1.0
#: Answers that are kept.
KNOWN_MAX = 4096


class Reach:
    """The live test of candidates. For one event loop; keeps no connection."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[str, int], tuple[float, bool]] = OrderedDict()

    def known(self, endpoint: Endpoint) -> bool | None:
        """Whether an address accepted a connection a moment ago; `None` if that is not known."""
        at, is_there = self._known.get((endpoint.host, endpoint.port), (float("-inf"), False))
        return is_there if self._clock() < at + KNOWN_S else None

    async def __call__(self, endpoint: Endpoint) -> bool:
        """Whether an address accepts a connection."""
        key = (endpoint.host, endpoint.port)
        is_there = self.known(endpoint)
        if is_there is None:
            is_there = await _accepts(*key)
            self._known.pop(key, None)
            self._known[key] = (self._clock(), is_there)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return is_there


async def _accepts(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_S)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
