"""What a node counts of messages: exactly, by link and lane."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

import shoal
from shoal.monitor.load import COUNTERS, load_status


@pytest.fixture
def buses(domain: str) -> Iterator[tuple[shoal.Bus, shoal.Bus]]:
    with shoal.connect(domain) as writer, shoal.connect(domain) as reader:
        yield writer, reader


def row(bus: shoal.Bus, place: str, lane: str = "normal") -> dict[str, Any]:
    (found,) = (row for row in bus.load()["rows"] if (row["place"], row["lane"]) == (place, lane))
    return dict(found)


def test_messages_are_counted_where_they_came_from_and_where_they_went(buses) -> None:
    writer, reader = buses
    prices = reader.subscribe("prices/*", selector="region = 'EU'")
    every = reader.subscribe("prices/*")
    assert writer.wait_for_subscribers("prices/a", 1, 10)
    for _ in range(5):
        writer.publish("prices/a", b"12345", properties={"region": "EU"})
        writer.publish("prices/a", b"12345", properties={"region": "US"})
        writer.publish("orders", b"nobody wants it")
    writer.flush(10)
    assert (len(every.receive_nowait(100)), len(prices.receive_nowait(100))) == (10, 5)
    here, link, came = row(writer, "here"), row(writer, "inproc"), row(reader, "inproc")
    assert (here["received"], here["matched"], here["dropped_at_source"]) == (15, 10, 5)
    assert (link["delivered"], link["dropped_at_source"], link["received"]) == (10, 5, 0)
    assert (came["received"], came["matched"], came["delivered"]) == (10, 10, 0)
    assert came["bytes_in"] == link["bytes_out"] > 0
    assert row(reader, "here")["delivered"] == 15
    assert came["evaluated"] >= 10


def test_lanes_are_counted_apart(buses) -> None:
    writer, reader = buses
    every = reader.subscribe("a")
    assert writer.wait_for_subscribers("a", 1, 10)
    writer.publish("a", b"", priority=9)
    writer.publish("a", b"", priority=9)
    writer.publish("a", b"", priority=0)
    writer.flush(10)
    assert len(every.receive_nowait(10)) == 3
    assert row(reader, "inproc", "high")["received"] == 2
    assert row(reader, "inproc", "low")["received"] == 1


def test_totals_are_those_of_all_rows_and_in_the_statistics(buses) -> None:
    writer, reader = buses
    every = reader.subscribe("a")
    assert writer.wait_for_subscribers("a", 1, 10)
    writer.publish("a", b"")
    writer.publish("b", b"")
    writer.flush(10)
    assert len(every.receive_nowait(10)) == 1
    load = writer.load()
    for name in set(COUNTERS) - {"dropped_at_source"}:
        assert load[name] == sum(each[name] for each in load["rows"]), name
    # However many links there are, it was dropped once.
    assert load["dropped_at_source"] == sum(
        each["dropped_at_source"] for each in load["rows"] if each["place"] == "here"
    )
    stats = writer.stats()
    names = ("received", "matched", "delivered", "dropped_at_source")
    assert [stats[f"messages_{name}"] for name in names] == [load[name] for name in names]
    assert (stats["message_bytes_in"], stats["message_bytes_out"]) == (load["bytes_in"], load["bytes_out"])


def test_what_a_closed_link_counted_stays() -> None:
    with shoal.listen("tcp://127.0.0.1:0") as bus:
        (listener,) = (link for link in bus.links if link.role == "listen")
        with shoal.connect(f"tcp://{listener.address}") as other:
            mine = bus.subscribe("a")
            assert other.wait_for_subscribers("a", 1, 10)
            other.publish("a", b"")
            other.flush(10)
            assert len(mine.receive_nowait(10)) == 1
            before = bus.load()
            assert before["cpu_ns"] > 0
            assert row(bus, "tcp")["peer"] == other.node
        deadline = time.monotonic() + 10
        while any(each["place"] == "tcp" for each in bus.load()["rows"]):
            assert time.monotonic() < deadline, "the link did not close"
            time.sleep(0.01)
        after = bus.load()
        assert row(bus, "closed")["received"] == 1
        assert after["received"] == before["received"]
        assert after["cpu_ns"] >= before["cpu_ns"]


def test_metrics_have_a_line_for_each_lane(buses) -> None:
    writer, reader = buses
    every = reader.subscribe("a")
    assert writer.wait_for_subscribers("a", 1, 10)
    for _ in range(3):
        writer.publish("a", b"")
    writer.flush(10)
    assert len(every.receive_nowait(10)) == 3
    lines = reader.metrics().splitlines()
    assert 'shoal_received_messages_total{lane="normal"} 3' in lines
    assert 'shoal_delivered_messages_total{lane="normal"} 3' in lines
    assert "shoal_node_cpu_seconds_total 0" in lines
    assert len([line for line in lines if line.startswith("shoal_received_messages_total")]) <= 5


def test_a_message_that_crosses_no_link_is_dropped_once_in_a_status() -> None:
    counters = dict.fromkeys(COUNTERS, 0)
    here = {**counters, "place": "here", "lane": "low", "dropped_at_source": 2}
    links = [{**counters, "place": "tcp", "lane": "low", "dropped_at_source": 2, "delivered": 1}] * 3
    found = load_status({**counters, "dropped_at_source": 2, "cpu_ns": 7, "rows": [here, *links]})
    assert found["cpu_ns"] == 7
    (lane,) = found["lanes"]
    assert (lane["dropped_at_source"], lane["delivered"]) == (2, 3)
