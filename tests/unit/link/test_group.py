"""Multicast links as `bus.links` shows them."""

import secrets

import shoal
from shoal.link.group import Rates


def test_rates_are_those_since_a_second_ago_and_stay_until_another_second_is_over() -> None:
    rates = Rates()
    assert rates.update(10.0, (100, 7)) == (0.0, 0.0)
    assert rates.update(10.5, (600, 7)) == (0.0, 0.0)
    assert rates.update(12.0, (1100, 27)) == (500.0, 10.0)
    assert rates.update(12.9, (9999, 99)) == (500.0, 10.0)
    assert rates.update(22.0, (1100, 27)) == (0.0, 0.0)


def test_a_multicast_connection_shows_its_group_with_members_and_round_trip() -> None:
    options = {"interface": "lo", "domain": secrets.token_hex(8)}
    with shoal.connect(**options) as one, shoal.connect(**options) as two, two.subscribe("a"):
        assert one.wait_for_subscribers("a", timeout_s=10)
        one.publish("a", bytes(1000))
        one.flush()
        (link,) = one.links
        assert (link.role, link.state, link.connections) == ("group", "up", 1)
        assert link.url == f"norm://{one.config.group_address()}:7474"
        assert link.address.startswith("127.0.0.1:")
        assert link.bytes_sent > 1000 < two.links[0].bytes_received
        assert link.round_trip_s is not None
        assert 0 < link.round_trip_s < 5
    assert one.links == []
