"""The registry's list: leases, stamps, datagrams, and the choice of a daemon."""

import dataclasses
import random
from collections import Counter

import pytest

from shoal.link.directory import Endpoint, Load, Record
from shoal.registry.directory import (
    LEASE_S,
    UNPROVEN_EVERY_S,
    Directory,
    DirectoryFullError,
    NotYoursError,
)
from shoal.registry.limits import RateLimit

UDP = ("10.0.0.9", 4000)
IDLE = Load()
SECRET = bytes(32)


class Clock:
    """A time of day that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(
    number: int, host: str = "10.0.0.1", *, connections_max: int = 10, load: Load = IDLE, version: str = "1"
) -> Record:
    return Record(
        publisher=f"{number:016x}",
        name=f"d{number}",
        endpoints=(Endpoint("tls", host, 7474), Endpoint("ws", host, 80)),
        connections_max=connections_max,
        load=load,
        version=version,
    )


@pytest.fixture
def wall() -> Clock:
    return Clock()


@pytest.fixture
def directory(wall: Clock) -> Directory:
    return Directory(0.0, wall=wall, chance=random.Random(1), sites=["10.0.0.0/8"])


def register(directory: Directory, one: Record, now: float = 0.0, domain: str = "d") -> None:
    """Register a daemon that proved its addresses."""
    directory.register(now, domain, one, secret=SECRET)
    for endpoint in one.endpoints:
        directory.prove(domain, one.publisher, SECRET, endpoint)


def names(directory: Directory, client: str = "10.0.0.7", **options: object) -> list[str]:
    return [each.record.name for each in directory.rank("d", client, **options)]  # type: ignore[arg-type]


def test_the_stamp_moves_with_members_and_not_with_load(directory: Directory) -> None:
    assert directory.stamp("d") == 0
    directory.register(0.0, "d", record(1))
    first = directory.stamp("d")
    directory.register(1.0, "d", record(1, load=Load(5, 0.5)))
    assert directory.stamp("d") == first
    assert directory.records("d")[0].load.connections == 5
    directory.register(2.0, "d", record(1, host="10.0.0.2"))
    assert directory.stamp("d") > first
    assert directory.stamp("other") == 0


def test_the_stamp_grows_though_the_clock_is_set_back(directory: Directory, wall: Clock) -> None:
    directory.register(0.0, "d", record(1))
    first = directory.stamp("d")
    wall.now = 10.0
    directory.register(0.0, "d", record(2))
    assert directory.stamp("d") == first + 1


def test_a_daemon_that_does_not_renew_is_removed_after_its_lease(directory: Directory) -> None:
    directory.register(0.0, "d", record(1))
    directory.register(0.0, "d", record(2))
    directory.register(5.0, "d", record(2))
    assert directory.expire(LEASE_S - 0.1) == []
    before = directory.stamp("d")
    assert directory.expire(LEASE_S) == ["d"]
    assert [each.name for each in directory.records("d")] == ["d2"]
    assert directory.stamp("d") > before


def test_a_goodbye_of_a_stranger_changes_nothing(directory: Directory) -> None:
    directory.register(0.0, "d", record(1))
    before = directory.stamp("d")
    assert not directory.leave("d", record(2).publisher)
    assert directory.stamp("d") == before


def test_there_is_a_bound(wall: Clock) -> None:
    directory = Directory(0.0, wall=wall, daemons_max=2)
    directory.register(0.0, "a", record(1))
    directory.register(0.0, "b", record(2))
    directory.register(0.0, "b", record(2))
    with pytest.raises(DirectoryFullError):
        directory.register(0.0, "a", record(3))


def test_an_address_gets_datagrams_once_it_echoed_one(directory: Directory) -> None:
    entry = directory.register(0.0, "d", record(1), UDP)
    assert [each[1] for each in directory.due_stamps(0.0)] == [UDP]
    assert directory.due_stamps(2.0) == [], "nobody has proved that it hears them"
    assert len(directory.due_stamps(UNPROVEN_EVERY_S)) == 1
    directory.register(61.0, "d", record(1), UDP, b"forged!!")
    assert directory.due_stamps(62.0) == []
    directory.register(63.0, "d", record(1), UDP, entry.echo)
    assert len(directory.due_stamps(64.0)) == len(directory.due_stamps(66.0)) == 1
    directory.register(67.0, "d", record(1), ("10.9.9.9", 5), entry.echo)
    directory.due_stamps(68.0)
    assert directory.due_stamps(70.0) == [], "another address has to be proved anew"


def test_near_daemons_come_first_then_those_of_the_site(directory: Directory) -> None:
    register(directory, record(1, "192.168.0.1"))
    register(directory, record(2, "10.3.0.1"))
    register(directory, record(3, "10.0.0.200", load=Load(9, 0.9)))
    assert names(directory) == ["d3", "d2", "d1"]
    assert names(directory, "192.168.0.77")[0] == "d1"


def test_full_unsuitable_and_excluded_daemons_are_left_out(directory: Directory) -> None:
    register(directory, record(1, load=Load(10)))
    register(directory, record(2, version="2"))
    register(directory, record(3))
    register(directory, record(4))
    assert sorted(names(directory, version="1")) == ["d3", "d4"]
    assert names(directory, version="1", exclude=[record(3).publisher]) == ["d4"]
    assert names(directory, transports=["wss"]) == []
    found = directory.rank("d", "10.0.0.7", transports=["ws"])
    assert {each.endpoint.transport for each in found} == {"ws"}
    assert directory.rank("none", "10.0.0.7") == []


def test_a_new_daemon_is_used_at_once_and_not_stampeded(directory: Directory) -> None:
    register(directory, record(1, connections_max=20, load=Load(12)))
    register(directory, record(2, connections_max=20))
    for _ in range(40):
        found = directory.rank("d", "10.0.0.7")
        if not found:
            break
        directory.chosen("d", found[0].record.publisher)
    assert directory.rank("d", "10.0.0.7") == [], "28 clients took the 28 free connections"


def test_clients_spread_by_capacity(directory: Directory) -> None:
    for number, connections in enumerate((100, 200, 300), 1):
        register(directory, record(number, connections_max=connections))
    chosen: Counter[str] = Counter()
    for _ in range(300):
        best = directory.rank("d", "10.0.0.7")[0].record
        chosen[best.name] += 1
        directory.chosen("d", best.publisher)
    for number, connections in enumerate((100, 200, 300), 1):
        assert chosen[f"d{number}"] == pytest.approx(connections / 2, rel=0.15)


def test_an_address_that_asks_too_often_is_refused_and_others_are_not() -> None:
    limit = RateLimit(2, addresses_max=2)
    assert [limit.admit(0.0, "a") for _ in range(3)] == [True, True, False]
    assert limit.admit(0.0, "b")
    assert not limit.admit(0.2, "a")
    assert limit.admit(0.7, "a")


def test_no_address_is_shown_before_its_daemon_proved_it(directory: Directory) -> None:
    one = record(1)
    tls, ws = one.endpoints
    directory.register(0.0, "d", one, secret=SECRET)
    before = directory.stamp("d")
    assert directory.rank("d", "10.0.0.7") == []
    assert directory.records("d")[0].endpoints == ()
    assert not directory.prove("d", one.publisher, b"another secret", tls)
    assert not directory.prove("d", one.publisher, SECRET, Endpoint("tls", "10.9.9.9", 1))
    assert not directory.prove("d", record(2).publisher, SECRET, tls)
    assert directory.prove("d", one.publisher, SECRET, tls)
    assert directory.stamp("d") > before, "the list has one more address"
    assert not directory.prove("d", one.publisher, SECRET, tls), "that was known"
    assert directory.records("d")[0].endpoints == (tls,)
    assert [each.endpoint for each in directory.rank("d", "10.0.0.7")] == [tls]
    directory.register(1.0, "d", one, secret=SECRET)
    assert directory.records("d")[0].endpoints == (tls,), "a renewed lease keeps what was proved"
    directory.prove("d", one.publisher, SECRET, ws)
    moved = dataclasses.replace(one, endpoints=(Endpoint("tls", "10.0.0.5", 7474), ws))
    directory.register(2.0, "d", moved, secret=SECRET)
    assert directory.records("d")[0].endpoints == (ws,), "a new address has to be proved"
    directory.register(3.0, "d", moved, secret=bytes(31) + b"1")
    assert directory.records("d")[0].endpoints == (), "what another secret proved counts no more"


def test_a_record_belongs_to_the_principal_that_registered_it(directory: Directory) -> None:
    directory.register(0.0, "d", record(1), owner="gw1")
    with pytest.raises(NotYoursError, match="gw1"):
        directory.register(1.0, "d", record(1, "10.6.6.6"), owner="gw2")
    with pytest.raises(NotYoursError):
        directory.leave("d", record(1).publisher, "gw2")
    assert directory.find("d", record(1).publisher) is not None
    assert directory.leave("d", record(1).publisher, "gw1")
    directory.register(2.0, "d", record(1), owner="gw2")
    assert directory.leave("d", record(1).publisher), "an operator removes any"


def test_nothing_stays_of_domains_without_daemons(directory: Directory) -> None:
    for number in range(1000):
        directory.register(0.0, f"domain {number}", record(number))
    for number in range(500):
        directory.leave(f"domain {number}", record(number).publisher)
    last = directory.stamp("domain 999")
    directory.expire(LEASE_S)
    assert len(directory) == 0
    assert not directory._domains
    assert not directory._stamps
    directory.register(20.0, "domain 999", record(1))
    assert directory.stamp("domain 999") > last, "a stamp never comes back"
