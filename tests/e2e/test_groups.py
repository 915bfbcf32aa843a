"""Groups: a switch that snoops brings a host only what goes over the groups of its subscriptions."""

import json
import subprocess
import sys
from pathlib import Path

import lab as laboratory
import pytest
from lab import LAN, Host, Lab
from programs import unique_group

import shoal
from shoal.config import ConnectionConfig

#: Subscribes where it is told, says how many messages came before the end of the load, and ends.
READER = """
import json, sys
import shoal
url, pattern = sys.argv[1:]
with shoal.connect(url) as bus, bus.subscribe("end") as ends, bus.subscribe(pattern) as messages:
    bus.sync(30)
    print(flush=True)
    ends.receive(90)
    got = [message.body[0] for message in messages.receive_nowait(100_000)]
    print(json.dumps(got), flush=True)
"""

#: Publishes a load of 2 MB in one group.
WRITER = """
import sys
import shoal
url, topic = sys.argv[1:]
with shoal.connect(url) as bus:
    assert bus.wait_for_subscribers(topic, 1, 30)
    assert bus.wait_for_subscribers("end", 2, 30)
    for number in range(2000):
        bus.publish(topic, [number, bytes(1000)])
    bus.flush(timeout_s=60)
    bus.publish("end")
    bus.flush(timeout_s=60)
"""


def sent_to(host: Host) -> int:
    """Bytes that the switch sent to a host."""
    return int(Path(f"/sys/class/net/{host.port}/statistics/tx_bytes").read_text())


def reading(host: Host, url: str, pattern: str) -> subprocess.Popen[str]:
    command = [*host.prefix, sys.executable, "-c", READER, url, pattern]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    started.stdout.readline()
    return started


@pytest.mark.skipif(laboratory.problem() is not None, reason=str(laboratory.problem()))
def test_a_host_that_wants_other_topics_gets_less_than_one_percent_of_the_bytes(lan: LAN) -> None:
    built: Lab = lan(3)
    # A querier counts from one response interval after its start on, in hundredths of a second.
    for settings in (
        ("mcast_query_response_interval", "10"),
        ("mcast_snooping", "1"),
        ("mcast_querier", "1"),
    ):
        laboratory.run("ip", "link", "set", built.name, "type", "bridge", *settings)
    one, two, three = built.hosts
    group = unique_group()
    url = f"norm://{group}?groups=8&assigned_groups=fx%3D3,orders%3D5,end%3D0"
    with reading(two, url, "fx/>") as interested, reading(three, url, "orders/>") as other:
        before = sent_to(two), sent_to(three)
        laboratory.run(*one.prefix, sys.executable, "-c", WRITER, url, "fx/USD")
        assert interested.stdout is not None
        assert other.stdout is not None
        got, others = json.loads(interested.stdout.readline()), json.loads(other.stdout.readline())
        loaded, idle = sent_to(two) - before[0], sent_to(three) - before[1]
        joined = laboratory.run("bridge", "mdb", "show", "dev", built.name)
    assert (got, others) == ([*range(2000)], [])
    assert loaded > 2_000_000
    assert idle < 0.01 * loaded, f"{idle} of {loaded} bytes"
    addresses = ConnectionConfig(group=group.partition(":")[0], groups=8).groups_addresses()
    ports = {(words[3], words[5]) for words in map(str.split, joined.splitlines()) if len(words) > 5}
    assert (two.port, addresses[3]) in ports
    assert (three.port, addresses[5]) in ports
    assert not {(two.port, addresses[5]), (three.port, addresses[3])} & ports


def test_a_subscription_in_a_further_group_misses_nothing_after_sync() -> None:
    url = f"norm://{unique_group()}?interface=lo&groups=16"
    with shoal.connect(url) as writer, shoal.connect(url) as reader:
        late = []
        for number in range(40):
            topic = f"t{number}/x"
            # For two seconds a new publisher says everything again to members that are new to it.
            writer.publish(topic, "before")
            writer.flush(30)
            messages = reader.subscribe(topic)
            reader.sync(30)
            for value in range(20):
                writer.publish(topic, value)
            writer.flush(30)
            late.append(
                [message.body for message in messages.receive_nowait(100) if message.body != "before"]
            )
            messages.close()
        assert late == [[*range(20)]] * 40
        everything = reader.subscribe(">")
        reader.sync(30)
        for number in range(40):
            writer.publish(f"t{number}/y", number, priority=number % 10)
        writer.flush(30)
        assert sorted(message.body for message in everything.receive_nowait(100)) == [*range(40)]
        assert [event for event in reader.events(timeout_s=0) if isinstance(event, shoal.MessagesLost)] == []


def test_order_and_requests_are_as_without_groups() -> None:
    url = f"norm://{unique_group()}?interface=lo&groups=4"
    with shoal.connect(url) as one, shoal.connect(url) as two:
        one.subscribe("sum/*", lambda message: message.reply(sum(message.body)))
        assert two.wait_for_subscribers("sum/a", 1, 30)
        assert two.request("sum/a", [1, 2, 3], timeout_s=30).body == 6
        messages = two.subscribe("a/>")
        two.sync(30)
        for number in range(5000):
            one.publish("a/b", number)
        one.flush(30)
        assert [message.body for message in messages.receive_nowait(10_000)] == [*range(5000)]


def test_nodes_with_other_groups_refuse_each_other_by_name() -> None:
    group = unique_group()
    with (
        shoal.connect(f"norm://{group}?interface=lo&groups=8") as eight,
        shoal.connect(f"norm://{group}?interface=lo&groups=4"),
    ):
        for event in eight.events(timeout_s=30):
            if isinstance(event, shoal.Unreadable):
                assert "it has groups=4, this node has groups=8" in event.why
                break
        else:
            raise AssertionError("nothing was told")
        assert not eight.members
