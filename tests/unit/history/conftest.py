"""A server over a store in memory, and a client of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from memory_store import MemoryScan, MemoryStore
from serving import Serve

from shoal._core import StagedRows
from shoal.config.tokens import Principals
from shoal.history import History, connect
from shoal.history.options import ServerOptions
from shoal.history.server import HistoryServer


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def serve(store: MemoryStore) -> Iterator[Serve]:
    """`serve(principals=…)`: a server with these options, closed when the test ends."""
    running: list[HistoryServer] = []

    def start(principals: Principals | None = None, **options: Any) -> HistoryServer:
        given = ServerOptions(port=0, **options)
        kernels: dict[str, Any] = {"open_scan": MemoryScan, "make_rows": StagedRows}
        running.append(HistoryServer(store, given, **kernels, principals=principals))
        return running[-1]

    yield start
    for server in running:
        server.close()


@pytest.fixture
def history(serve: Serve) -> Iterator[History]:
    with connect(serve().endpoint) as client:
        yield client
