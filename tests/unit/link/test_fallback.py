"""What stands in for multicast where it does not work."""

import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.bus import node as bus_node
from shoal.config import ConnectionConfig, resolve
from shoal.config.keys import new_key
from shoal.config.target import Target
from shoal.errors import LinkError
from shoal.link.backoff import Backoff
from shoal.link.dialler import Dialler
from shoal.link.fallback import stand_in
from shoal.link.meeting import Meeting
from shoal.link.probe import is_loopback, multicast_problem


def wait_until(met: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def fallen(**options: Any) -> ConnectionConfig:
    return ConnectionConfig(when_no_multicast="tcp", **options)


def test_without_a_url_tcp_may_stand_in_and_with_one_it_may_not() -> None:
    assert resolve(None, {}, {}).when_no_multicast == "tcp"
    assert resolve("norm://", {}, {}).when_no_multicast == "error"
    assert resolve(None, {}, {"SHOAL_URL": "norm://"}).when_no_multicast == "error"
    assert resolve(None, {}, {"SHOAL_SEEDS": "a,b"}).seeds == "a,b"
    assert resolve("norm://", {}, {"SHOAL_SEEDS": "a,b"}).seeds is None
    assert resolve("tcp://", {}, {"SHOAL_SEEDS": "a,b"}).seeds == "a,b"
    assert resolve("tcp://", {"seeds": "c"}, {"SHOAL_SEEDS": "a,b"}).seeds == "c"


def test_seeds_are_hosts_ports_and_urls() -> None:
    config = fallen(seeds="10.0.0.7, gateway:7500 ,tls://c:1,")
    assert config.seed_targets() == (
        Target("tcp", "10.0.0.7", 7474),
        Target("tcp", "gateway", 7500),
        Target("tls", "c", 1),
    )


def test_seeds_come_first_and_otherwise_the_machine_meets_at_the_domains_port() -> None:
    plan = stand_in(fallen(seeds="a", heartbeat_s=1.0), "no route")
    assert (plan.config.scheme, plan.config.heartbeat_s, plan.meeting) == ("tcp", 1.0, None)
    assert plan.seeds == (Target("tcp", "a", 7474),)
    assert stand_in(fallen(), "no route").meeting == Target("tcp", "127.0.0.1", 7474)
    places = {stand_in(fallen(domain=name), "").meeting for name in ("default", "desk", "lab")}
    assert len(places) == 3
    assert stand_in(fallen(port=7500, domain="desk"), "").meeting == Target("tcp", "127.0.0.1", 7500)
    assert (plan.where(), stand_in(fallen(port=7500), "").where()) == ("tcp://a:7474", "tcp://127.0.0.1:7500")


@pytest.mark.parametrize("options", [{"cache_bytes": 1 << 23}, {"interface": "eth0"}, {"key": new_key()}])
def test_what_tcp_cannot_do_is_not_left_out_silently(options: dict[str, Any]) -> None:
    with pytest.raises(LinkError, match=rf"no route.* cannot stand in.*{next(iter(options))}"):
        stand_in(fallen(**options), "no route")


def test_a_key_in_the_environment_counts_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(new_key())
    path.chmod(0o600)
    monkeypatch.setenv("SHOAL_KEY_FILE", str(path))
    with pytest.raises(LinkError, match="a key"):
        stand_in(fallen(), "no route")


def test_a_probe_comes_back_on_the_loopback_interface_and_not_from_nowhere() -> None:
    assert multicast_problem("239.192.74.1", "lo", "127.0.0.1:5000") is None
    assert "cannot be sent" in str(multicast_problem("239.192.74.1", "eth9", "203.0.113.7:5000"))


class Place:
    """A place that is free or taken."""

    def __init__(self) -> None:
        self.free = False
        self.connected: list[Dialler] = []

    def listen(self, target: Target) -> bool:
        return self.free

    def connect(self, target: Target) -> Dialler:
        made = Dialler(target, backoff=Backoff(1.0), refused_s=1.0)
        self.connected.append(made)
        return made


def meeting_at(place: Place) -> Meeting:
    return Meeting(
        Target("tcp", "127.0.0.1", 7474),
        listen=place.listen,
        connect=place.connect,
        forget=place.connected.remove,
    )


def test_whoever_is_first_hosts_and_a_guest_takes_over_when_the_host_is_gone() -> None:
    place = Place()
    place.free = True
    first = meeting_at(place)
    first.turn()
    assert (first.hosts, first.is_settled, place.connected) == (True, True, [])
    place.free = False
    guest = meeting_at(place)
    guest.turn()
    (dialler,) = place.connected
    assert not guest.is_settled
    dialler.on_news(0.0, {"kind": "up", "publisher": 1, "why": ""})
    assert guest.is_settled
    guest.turn()
    assert place.connected == [dialler]
    dialler.on_news(1.0, {"kind": "broken", "why": "it died", "publisher": 1})
    guest.turn()
    assert not guest.hosts, "another guest was first"
    place.free = True
    guest.turn()
    assert (guest.hosts, place.connected) == (True, [])


@pytest.fixture
def no_multicast(monkeypatch: pytest.MonkeyPatch) -> int:
    """A machine where no probe comes back; and a port where its programs may meet."""
    monkeypatch.setattr(bus_node, "multicast_problem", lambda *_: "a probe did not come back")
    monkeypatch.delenv("SHOAL_SEEDS", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_programs_of_a_machine_meet_and_go_on_when_the_first_one_goes(
    no_multicast: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "shoal.link"):
        host = shoal.connect(port=no_multicast, reconnect_max_s=0.2)
    assert "did not come back" in caplog.text
    assert "SHOAL_SEEDS=host:port" in caplog.text
    shoal.connect(port=no_multicast, required=True).close()
    with (
        shoal.connect(port=no_multicast, reconnect_max_s=0.2) as one,
        shoal.connect(port=no_multicast, reconnect_max_s=0.2) as two,
        two.subscribe("a") as heard,
    ):
        assert one.config.scheme == "tcp"
        assert one.wait_for_subscribers("a", timeout_s=10)
        one.publish("a", 1)
        assert heard.receive(10).body == 1
        host.close()
        wait_until(lambda: any(link.role == "listen" for bus in (one, two) for link in bus.links))
        assert one.wait_for_subscribers("a", timeout_s=10)
        one.publish("a", 2)
        assert heard.receive(10).body == 2


def test_a_place_where_no_program_answers_is_waited_for_no_longer_than_asked(no_multicast: int) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", no_multicast))
        silent.listen()
        with shoal.connect(port=no_multicast, connect_timeout_s=0.2) as bus:
            assert bus.members == []
        with pytest.raises(shoal.LinkError, match=f"cannot reach tcp://127.0.0.1:{no_multicast}: "):
            shoal.connect(port=no_multicast, connect_timeout_s=0.2, required=True)


def test_seeds_are_connected_to(no_multicast: int) -> None:
    with (
        shoal.listen("tcp://127.0.0.1:0") as seed,
        shoal.connect(seeds=f"127.0.0.1:{no_multicast},{seed.links[-1].url}") as bus,
    ):
        assert bus.members == [seed.node]
        assert [link.state for link in bus.links] == ["reconnecting", "up"]


def test_a_place_that_is_another_domains_is_said() -> None:
    with (
        shoal.listen("tcp://127.0.0.1:0", domain="desk") as other,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(bus_node, "multicast_problem", lambda *_: "no")
        port = int(other.links[-1].url.rpartition(":")[2])
        with pytest.raises(shoal.LinkRefusedError, match="choose another port"):
            shoal.connect(port=port)


def test_a_loopback_address_leads_nowhere() -> None:
    assert [is_loopback(local) for local in ("127.0.0.1:5000", "[::1]:5000", "10.0.0.7:5000")] == [
        True, True, False,
    ]  # fmt: skip
