"""What the tests against other implementations share."""

import os
import socket

import pytest

from shoal_bench.peers import libnorm


@pytest.fixture(autouse=True)
def _libnorm_is_installed() -> None:
    try:
        libnorm.version()
    except libnorm.LibnormError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def free_udp_port() -> int:
    """A port that was free a moment ago; multicast groups are shared, so tests do not share ports."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
