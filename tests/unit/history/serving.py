"""What the fixture `serve` is."""

from collections.abc import Callable

from shoal.history.server import HistoryServer

Serve = Callable[..., HistoryServer]
