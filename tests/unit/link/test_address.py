"""Where links lead."""

import pytest

from shoal.config.target import Target, target_of
from shoal.errors import ConfigError, LinkError
from shoal.link.address import resolve


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("tcp://10.0.0.7:7000", Target("tcp", "10.0.0.7", 7000)),
        ("tls://[::1]:7000", Target("tls", "::1", 7000)),
        ("tcp://gateway", Target("tcp", "gateway", 7474)),
        ("tcp://:7000", Target("tcp", "127.0.0.1", 7000)),
        ("tcp://", Target("tcp", "127.0.0.1", 7474)),
        ("wss://gateway:443/shoal/x", Target("wss", "gateway", 443, "/shoal/x")),
        ("ws://gateway/", Target("ws", "gateway", 7474)),
        ("drop:///mnt/an%20exchange", Target("drop", "", 0, "/mnt/an exchange")),
    ],
)
def test_a_url_names_a_target(url: str, found: Target) -> None:
    assert target_of(url, 7474) == found


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("gateway:7000", "tcp://host:port"),
        ("tcp://a:1?heartbeat_s=1", "options belong to the connection"),
        ("tcp://a:1/b", "may only name a host and a port"),
        ("tls://a:1/b", "may only name a host and a port"),
        ("tcp://a:70000", "70000|0-65535"),
    ],
)
def test_what_is_no_such_url_is_refused(url: str, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        target_of(url, 7474)


def test_a_target_is_written_as_a_url_has_it() -> None:
    assert Target("tcp", "10.0.0.7", 1).url == "tcp://10.0.0.7:1"
    assert Target("tls", "::1", 1).url == "tls://[::1]:1"
    assert Target("drop", "", 0, "/an exchange").url == "drop:///an%20exchange"


def test_an_address_is_its_own_and_a_name_that_there_is_not_says_so() -> None:
    assert resolve("10.0.0.7", 1) == ["10.0.0.7"]
    assert resolve("::1", 1) == ["::1"]
    assert "127.0.0.1" in resolve("localhost", 1)
    with pytest.raises(LinkError, match=r"'no\.such\.name\.invalid' cannot be found"):
        resolve("no.such.name.invalid", 1)
