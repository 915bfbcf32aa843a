"""URLs and keywords become one checked configuration; errors name the field, the value, and what would do."""

import dataclasses
from typing import Any

import pytest

from shoal.config import ConnectionConfig, parse_url
from shoal.errors import ConfigError


def test_nothing_means_the_default_domain_on_norm() -> None:
    config = parse_url(None)
    assert (config.scheme, config.domain, config.group_address(), config.port) == (
        "norm",
        "default",
        "239.192.74.1",
        7474,
    )
    assert config.interface == "auto"


def test_a_url_names_group_port_and_options() -> None:
    config = parse_url(
        "norm://239.1.2.3:9000?interface=eth1&heartbeat_s=0.5&window_bytes=131072&when_full=drop"
    )
    assert (config.group_address(), config.port, config.interface) == ("239.1.2.3", 9000, "eth1")
    assert (config.heartbeat_s, config.window_bytes, config.when_full) == (0.5, 131072, "drop")


def test_a_group_may_be_ipv6() -> None:
    config = parse_url("norm://[ff15::74:1]:9000")
    assert (config.group_address(), config.port) == ("ff15::74:1", 9000)


def test_a_norm_url_may_name_the_one_other_end() -> None:
    config = parse_url(
        "norm://10.0.0.2:7475?listen_port=7476&congestion=delivery&auto_parity=2&parity_symbols=16"
    )
    assert (config.is_unicast, config.group_address(), config.port) == (True, "10.0.0.2", 7475)
    assert (config.listen_port, config.congestion) == (7476, "delivery")
    assert not parse_url("norm://239.1.2.3").is_unicast
    assert not parse_url(None).is_unicast


def test_a_tcp_url_names_the_other_end() -> None:
    config = parse_url("tcp://gateway:7000?resume_s=5&when_slow=wait", domain="desk")
    assert (config.host, config.port, config.domain, config.resume_s) == ("gateway", 7000, "desk", 5.0)
    assert (parse_url("tcp://[::1]:0").host, parse_url("tcp://[::1]:0").port) == ("::1", 0)
    assert (parse_url("tcp://:7000").host, parse_url("tcp://").port) == (None, 7474)


def test_inproc_takes_its_name_from_the_url_and_keeps_its_case() -> None:
    assert parse_url("inproc://Prices").domain == "Prices"


def test_inproc_without_a_name_takes_the_domain_given_beside_it() -> None:
    assert parse_url("inproc://").domain == "default"
    assert parse_url("inproc://", domain="desk").domain == "desk"


def test_an_option_may_be_given_twice_if_both_agree() -> None:
    assert parse_url("norm://?interface=lo", interface="lo").interface == "lo"


def test_every_domain_has_a_group_of_its_own_and_always_the_same() -> None:
    groups = {parse_url(None, domain=f"desk-{number}").group_address() for number in range(100)}
    assert len(groups) >= 99
    assert "239.192.74.1" not in groups
    assert parse_url(None, domain="desk").group_address() == parse_url(None, domain="desk").group_address()


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse_url(None).port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("prices", ["'prices'", "norm://", "inproc://name"]),
        ("", []),
        ("ftp://x", ["'ftp'", "norm://"]),
        ("locate:///desk", ["host", "reg:7480"]),
        ("locate://reg:port/desk", ["host", "'reg:port'", "reg:7480"]),
        ("locate://reg/desk?transport=smoke", ["transport", "'smoke'", "tls"]),
        ("tcp://host?transport=tls", ["transport", "locate://"]),
        ("tls://localhost:1?tls_cert=a.pem", ["tls_cert", "'a.pem'", "tls_key"]),
        ("tcp://localhost:1/path", ["'/path'"]),
        ("norm://?tls_ca=a.pem", ["tls_ca", "tcp://"]),
        ("norm://?seeds=a", ["seeds", "when_no_multicast"]),
        ("tcp://?seeds=a,norm://b", ["seeds", "norm://b"]),
        ("udp://?cache_bytes=1000000", ["cache_bytes", "repairs nothing"]),
        ("udp://?listen=maybe", ["listen", "'maybe'", "true or false"]),
        ("tcp://localhost:70000", ["70000", "0-65535"]),
        ("tcp://localhost:1?interface=lo", ["interface", "tcp://", "multicast"]),
        ("tcp://localhost:1?resume_s=-1", ["resume_s", "-1"]),
        ("tcp://localhost:1?connections_max=0", ["connections_max", "0"]),
        ("tcp://localhost:1?reconnect_max_s=0", ["reconnect_max_s", "0"]),
        ("norm://?resume_s=1", ["resume_s", "tcp://"]),
        ("norm://239.1.2.3:70000", ["70000", "0-65535"]),
        ("norm://239.1.2.3:0", ["port", "0", "1 to 65535"]),
        ("norm://0.0.0.0:7474", ["group", "'0.0.0.0'", "224.0.0.0/4", "the other end"]),
        ("norm://?congestion=delivery", ["congestion", "'delivery'", "multicast group"]),
        ("norm://239.1.2.3:7474?listen_port=7475", ["listen_port", "7475", "left out"]),
        ("norm://10.0.0.1:7474?listen_port=0", ["listen_port", "0", "65535"]),
        ("tcp://localhost:1?listen_port=5", ["listen_port", "tcp://"]),
        ("norm://myhost:7474", ["group", "'myhost'", "239.192.74.1"]),
        ("norm://239.1.2.3/desk", ["'/desk'"]),
        ("norm://?colour=blue", ["'colour'", "heartbeat_s", "interface"]),
        ("norm://?scheme=inproc", ["scheme"]),
        ("norm://?port=many", ["port", "'many'", "number"]),
        ("norm://?heartbeat_s=-1", ["heartbeat_s", "-1", "more than 0"]),
        ("norm://?heartbeat_s=nan", ["heartbeat_s", "nan"]),
        ("norm://?heartbeat_s=inf", ["heartbeat_s", "inf"]),
        ("norm://?when_full=wait", ["when_full", "'wait'", "block, drop or error"]),
        ("norm://?segment_bytes=10", ["segment_bytes", "10", "64 to 65000"]),
        ("norm://?window_bytes=1", ["window_bytes", "1", "65536"]),
        ("norm://?window_bytes=33554432", ["window_bytes", "33554432", "cache_bytes"]),
        ("norm://?message_bytes_max=0", ["message_bytes_max", "0"]),
        ("norm://?backoff_factor=16", ["backoff_factor", "16", "0 to 15"]),
        ("norm://?domain=", ["domain", "''"]),
        ("norm://?rate_bytes_per_s=0", ["rate_bytes_per_s", "0"]),
    ],
)
def test_a_wrong_url_is_refused_with_what_is_wrong_in_it(url: str, names: list[str]) -> None:
    if not url:
        assert parse_url(url) == parse_url(None)
        return
    with pytest.raises(ConfigError) as refusal:
        parse_url(url)
    for name in names:
        assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"colour": "blue"}, ["'colour'", "interface"]),
        ({"port": "7474"}, ["port", "'7474'"]),
        ({"port": 7474.5}, ["port", "7474.5"]),
        ({"heartbeat_s": "often"}, ["heartbeat_s", "'often'"]),
        ({"heartbeat_s": None}, ["heartbeat_s", "None"]),
        ({"interface": 5}, ["interface", "5"]),
        ({"interface": ""}, ["interface", "''"]),
        ({"group": 5}, ["group", "5"]),
        ({"domain": None}, ["domain", "None"]),
        ({"missed_heartbeats_max": 0}, ["missed_heartbeats_max", "0"]),
        ({"missed_heartbeats_max": 2**70}, ["missed_heartbeats_max", "1000000"]),
        ({"slow_after_s": 1e300}, ["slow_after_s", "1,000,000,000"]),
        ({"assembly_bytes_max": 2**70}, ["assembly_bytes_max", "1099511627776"]),
        ({"slow_after_s": 0}, ["slow_after_s", "0"]),
        ({"when_slow": "block"}, ["when_slow", "'block'", "expel or wait"]),
        ({"drop_received": 1.5}, ["drop_received", "1.5"]),
        ({"window_bytes": True}, ["window_bytes", "True"]),
    ],
)
def test_a_wrong_keyword_is_refused_with_what_is_wrong_in_it(
    options: dict[str, object], names: list[str]
) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_url(None, **options)
    for name in names:
        assert name in str(refusal.value)


def test_a_keyword_may_not_contradict_the_url() -> None:
    with pytest.raises(ConfigError, match=r"interface is 'lo' in the URL and 'eth0' as an argument"):
        parse_url("norm://?interface=lo", interface="eth0")


def test_an_option_that_appears_twice_in_the_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="port"):
        parse_url("norm://?port=1&port=2")
    with pytest.raises(ConfigError, match="port"):
        parse_url("norm://239.1.2.3:9000?port=9001")


def test_a_configuration_is_checked_however_it_is_made() -> None:
    with pytest.raises(ConfigError, match="port"):
        ConnectionConfig(port=0)
    with pytest.raises(ValueError, match="port"):
        ConnectionConfig(port=70_000)


@pytest.mark.parametrize(
    "option", ["interface=lo", "port=7000", "heartbeat_s=1", "window_bytes=65536", "rate_bytes_per_s=1000"]
)
def test_an_option_of_the_network_is_refused_where_there_is_none(option: str) -> None:
    name = option.partition("=")[0]
    with pytest.raises(ConfigError, match=f"{name} means nothing on inproc://"):
        parse_url(f"inproc://here?{option}")


def test_what_counts_without_a_network_is_accepted_there() -> None:
    config = parse_url("inproc://here?slow_after_s=2&message_bytes_max=1000", when_full="drop")
    assert (config.slow_after_s, config.message_bytes_max, config.when_full) == (2.0, 1000, "drop")


def test_domains_have_numbers_of_their_own_though_their_groups_may_be_the_same() -> None:
    configs = [ConnectionConfig(domain=f"d{number}") for number in range(2000)]
    groups = {config.group_address() for config in configs}
    assert len(groups) < len(configs), "among so many, some share a group"
    assert len({config.domain_number() for config in configs}) == len(configs)
    assert ConnectionConfig(domain="desk").domain_number() == ConnectionConfig(domain="desk").domain_number()


@pytest.mark.parametrize("scheme", ["norm", "udp"])
def test_marks_are_pairs_for_three_classes(scheme: str) -> None:
    assert parse_url(f"{scheme}://").class_marks() is None
    assert parse_url(f"{scheme}://?mark=true").class_marks() == [(46, 6), (34, 4), (0, 0)]
    marked = parse_url(f"{scheme}://", mark=True, marks="63:0,8:6,1:2")
    assert marked.class_marks() == [(63, 0), (8, 6), (1, 2)]


@pytest.mark.parametrize("marks", ["", "46:6", "46:6,34:4", "64:6,34:4,0:0", "46:7,34:4,0:0", "46,34,0"])
def test_marks_that_cannot_be_are_refused(marks: str) -> None:
    with pytest.raises(ConfigError, match=r"marks is .*, and must be"):
        parse_url("norm://", mark=True, marks=marks)


def test_marks_mean_nothing_without_mark_and_without_datagrams() -> None:
    with pytest.raises(ConfigError, match="left out unless mark is true"):
        parse_url("norm://", marks="1:1,2:2,3:3")
    with pytest.raises(ConfigError, match="mark means nothing on tcp://"):
        parse_url("tcp://127.0.0.1:1", mark=True)


def test_groups_have_addresses_of_their_own_and_levels_are_assigned() -> None:
    plain = ConnectionConfig(groups=3)
    assert plain.groups_addresses() == ["239.194.74.1", "239.194.74.2", "239.194.74.3"]
    assert ConnectionConfig(groups=2, group="239.1.2.255").groups_addresses() == ["239.1.3.0", "239.1.3.1"]
    assert ConnectionConfig(groups=2, group="ff15::1").groups_addresses() == ["ff15::2", "ff15::3"]
    chosen = ConnectionConfig(groups=3, assigned_groups="fx=2,orders=0")
    assert chosen.group_levels() == [("fx", 2), ("orders", 0)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": 17}, "16"),
        ({"assigned_groups": "fx=0"}, "left out unless groups is given"),
        ({"groups": 3, "assigned_groups": "fx=3"}, "groups below 3"),
        ({"groups": 3, "assigned_groups": "fx=1,fx=2"}, "groups below 3"),
        ({"groups": 3, "assigned_groups": "fx/USD=1"}, "groups below 3"),
        ({"groups": 3, "router": True}, "left out for a router"),
        ({"groups": 3, "group": "10.0.0.7"}, "left out between two ends"),
        ({"groups": 3, "group": "239.255.255.254"}, "3 multicast addresses behind it"),
        ({"groups": 3, "scheme": "tcp"}, "means nothing on tcp://"),
    ],
)
def test_groups_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ConnectionConfig(**options)
