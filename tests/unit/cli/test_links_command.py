"""The table of `shoal links`."""

from shoal.cli.links import _row

LINK = {"name": "wan", "kind": "tcp", "state": "up", "peer": 7, "round_trip_s": 0.0004}


def test_a_link_names_the_daemon_at_its_other_end_and_numbers_a_program() -> None:
    assert _row("berlin", LINK, {7: "madrid"})[:6] == ("berlin", "wan", "tcp", "up", "madrid", "0.4 ms")
    assert _row("berlin", LINK, {8: "madrid"})[4] == "7"


def test_a_listener_and_a_lan_say_where() -> None:
    assert (
        _row("berlin", {**LINK, "peer": None, "url": "tcp://127.0.0.1:7501"}, {})[4] == "tcp://127.0.0.1:7501"
    )
    assert _row("berlin", {**LINK, "peer": None, "lan": "239.192.74.1:7474"}, {})[4] == "239.192.74.1:7474"
