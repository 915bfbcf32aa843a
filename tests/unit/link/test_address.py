"""Addresses of TCP links."""

import pytest

from shoal.errors import ConfigError, LinkError
from shoal.link.address import host_and_port, resolve, text_of


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("tcp://10.0.0.7:7000", ("10.0.0.7", 7000)),
        ("tcp://[::1]:7000", ("::1", 7000)),
        ("tcp://gateway", ("gateway", 7474)),
        ("tcp://:7000", ("127.0.0.1", 7000)),
        ("tcp://", ("127.0.0.1", 7474)),
    ],
)
def test_a_url_names_a_host_and_a_port(url: str, found: tuple[str, int]) -> None:
    assert host_and_port(url, 7474) == found


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("norm://", "tcp://host:port"),
        ("gateway:7000", "tcp://host:port"),
        ("tcp://a:1?heartbeat_s=1", "options belong to the connection"),
        ("tcp://a:1/b", "may only name a host and a port"),
        ("tcp://a:70000", "70000|0-65535"),
    ],
)
def test_what_is_no_such_url_is_refused(url: str, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        host_and_port(url, 7474)


def test_an_address_is_written_as_a_url_has_it() -> None:
    assert text_of("10.0.0.7", 1) == "tcp://10.0.0.7:1"
    assert text_of("::1", 1) == "tcp://[::1]:1"


def test_an_address_is_its_own_and_a_name_that_there_is_not_says_so() -> None:
    assert resolve("10.0.0.7", 1) == ["10.0.0.7"]
    assert resolve("::1", 1) == ["::1"]
    assert "127.0.0.1" in resolve("localhost", 1)
    with pytest.raises(LinkError, match=r"'no\.such\.name\.invalid' cannot be found"):
        resolve("no.such.name.invalid", 1)
