"""A daemon's own estimate: once a second, one event when capacity becomes low, one when it is back."""

import time
from typing import Any

import pytest

from shoal.bus.events import CapacityLow, CapacityRegained
from shoal.capacity.estimator import Load
from shoal.monitor.capacity import CapacityWatch
from shoal.monitor.metrics import Exposition


class Node:
    """Counters of a node that is busy for a share of each second."""

    def __init__(self) -> None:
        self.cpu_s, self.received, self.looks = 0.0, 0, 0

    def run(self, load: float) -> None:
        self.cpu_s += load
        self.received += 1000

    def counted(self) -> dict[str, Any]:
        self.looks += 1
        load = {
            "received": self.received,
            "evaluated": 3 * self.received,
            "delivered": 2 * self.received,
            "bytes_in": 64 * self.received,
            "bytes_out": 128 * self.received,
            "cpu_ns": round(self.cpu_s * 1e9),
        }
        # The process also runs Python: that is no work of the node.
        return {"load": load, "cpu_s": 2 * self.cpu_s}


def watched(loads: list[float]) -> tuple[CapacityWatch, list[tuple[int, object]]]:
    node, watch, events = Node(), CapacityWatch("gw1"), []
    for second, load in enumerate(loads):
        node.run(load)
        if (event := watch.turn(float(second), node.counted)) is not None:
            events.append((second, event))
    return watch, events


def test_capacity_is_low_after_half_a_minute_above_80_percent_and_told_once() -> None:
    watch, events = watched([0.5] * 5 + [0.9] * 40 + [0.3] * 3)
    assert [(second, type(event)) for second, event in events] == [(35, CapacityLow), (45, CapacityRegained)]
    assert events[0][1] == CapacityLow("gw1", pytest.approx(0.9), pytest.approx(1000))
    status = watch.status()
    assert status is not None
    assert not status["low"]


def test_a_short_peak_is_no_event() -> None:
    assert watched([0.95] * 25 + [0.5] + [0.95] * 25)[1] == []


def test_counters_are_read_once_a_second() -> None:
    node, watch = Node(), CapacityWatch("gw1")
    for turn in range(100):
        watch.turn(turn / 20, node.counted)
    assert node.looks == 5


def test_the_status_says_not_enough_variation_in_place_of_coefficients() -> None:
    status = watched([0.4] * 20)[0].status()
    assert status is not None
    assert (status["coefficients"], status["why"]) == (None, "not enough variation")
    assert abs(status["processing_s"] - 0.4 / 1000) < 1e-9
    assert CapacityWatch("gw1").status() is None


def test_a_store_works_in_threads_beside_the_node_so_its_process_is_what_counts() -> None:
    node = Node()
    node.run(0.25)
    status = node.counted()
    assert Load.of_status(status).cpu_ns == 250_000_000
    assert Load.of_status({**status, "store": {}}).cpu_ns == 500_000_000


def test_metrics_have_what_is_known() -> None:
    about = {"name": "d", "domain": "x", "version": "1", "links": []}
    told = Exposition().text({**about, "capacity": watched([0.4] * 20)[0].status()})
    assert "shoal_capacity_load_ratio 0.4" in told
    assert "shoal_capacity_headroom_ratio 2.5" in told
    assert "shoal_capacity_low 0" in told
    assert "capacity" not in Exposition().text({**about, "capacity": None})


def test_a_second_of_watching_costs_less_than_a_thousandth_of_a_core() -> None:
    node, watch = Node(), CapacityWatch("gw1")
    seconds = 500
    spent_s = []
    # The least of some, because other programs take this one's caches.
    for _ in range(3):
        began = time.thread_time()
        for second in range(seconds):
            node.run(0.3 + 0.01 * (second % 7))
            watch.turn(float(node.received), node.counted)
            if second % 5 == 0:
                # A scrape in five seconds.
                watch.status()
        spent_s.append((time.thread_time() - began) / seconds)
    assert min(spent_s) < 1e-3
