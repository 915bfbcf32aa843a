"""New clients leave some file descriptors to the log, and are told so."""

import pytest
from memory_store import MemoryStore
from serving import Serve
from test_server import refusal

from shoal.history import connect
from shoal.history.descriptors import RESERVED, Admission


def test_new_clients_are_refused_once_only_the_reserve_is_left() -> None:
    used = 0
    admission = Admission(lambda: used, lambda: 100)
    admission.admit("first")
    used = 100 - RESERVED
    admission.admit("second")
    used += 1
    error = refusal(lambda: admission.admit("third"), "FULL")
    assert f"has {used} of 100 file descriptors in use" in str(error)
    # Who is in stays in.
    admission.admit("first")
    used -= 1
    admission.admit("third")


def test_a_client_that_is_refused_gives_its_connection_back(
    store: MemoryStore, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(serve().endpoint) as inside, connect(inside.endpoint) as outside:
        assert inside.info()["end"] == 0
        with monkeypatch.context() as patch:
            patch.setattr("shoal.history.descriptors.RESERVED", 1 << 40)
            refusal(outside.info, "FULL")
            assert outside._client is None
            assert inside.info()["end"] == 0
        assert outside.info()["end"] == 0
