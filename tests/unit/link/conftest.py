"""Certificates for links over TLS, made once."""

from pathlib import Path

import pytest

from shoal.link.authority import make_authority, make_node


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, the node `localhost`, and `stranger`, whom another authority of the same name signed."""
    folder, other = tmp_path_factory.mktemp("certs"), tmp_path_factory.mktemp("others")
    make_authority(folder, "test CA", 30)
    make_node(folder, "localhost", ["127.0.0.1", "::1"], 30)
    make_node(folder, "leaf", [], 30)
    make_node(folder, "elsewhere", [], 30)
    make_authority(other, "test CA", 30)
    make_node(other, "stranger", ["127.0.0.1"], 30)
    return folder


@pytest.fixture(scope="session")
def strangers(certs: Path) -> Path:
    return next(path for path in certs.parent.iterdir() if path.name.startswith("others"))
