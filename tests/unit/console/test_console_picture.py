"""Looks become tables: rates, silence, LANs, backlogs, topics and alarms."""

import math
from typing import Any

from shoal.bus.events import MemberLeft, MessagesLost, SubscriptionsChanged
from shoal.console.look import Look
from shoal.console.picture import Picture


def status(node: int, at: float = 0.0, **more: Any) -> dict[str, Any]:
    link = {
        "name": "norm://239.1.1.1:7474",
        "role": "group",
        "state": "up",
        "up": 1,
        "address": f"10.0.0.{node}:99",
        "bytes_sent": 1000 * at,
        "bytes_received": 0,
        "messages_sent": 10 * at,
        "round_trip_s": 0.002,
    }
    told: dict[str, Any] = {
        "node": node,
        "name": f"n{node}",
        "host": "h",
        "pid": 1,
        "kind": "program",
        "uptime_s": at,
        "healthy": True,
        "links": [link],
        "cpu_s": 0.1 * at,
    }
    return told | more


def queue(name: str, messages: int, **more: Any) -> dict[str, Any]:
    return {"queue": name, "name": name, "messages": messages, "bytes": 10 * messages, "consumers": 1} | more


def look(at: float, *statuses: dict[str, Any], **more: Any) -> Look:
    members = [each["node"] for each in statuses if isinstance(each.get("node"), int)]
    return Look(at_s=at, wall_s=1e9 + at, statuses=statuses, **{"members": members, **more})


def test_counters_of_two_looks_become_rates() -> None:
    picture = Picture("run", "d")
    picture.update(look(1.0, status(1, 1.0)))
    assert picture.state.rows("nodes")["1"]["sent_s"] is None
    picture.update(look(3.0, status(1, 3.0)))
    row = picture.state.rows("nodes")["1"]
    assert (row["sent_s"], row["out_bps"], row["cpu"], row["rtt_ms"]) == (10, 8000, 0.1, 2.0)
    # It was started again: its counters fell.
    picture.update(look(4.0, status(1, 0.5)))
    assert picture.state.rows("nodes")["1"]["sent_s"] is None


def test_a_node_that_does_not_answer_is_silent_within_three_seconds_and_an_alarm() -> None:
    picture = Picture("run", "d")
    picture.update(look(0.0, status(1), status(2)))
    for at in (1.0, 2.0, 3.0):
        picture.update(look(at, status(2, at), members=[1, 2]))
    assert picture.state.rows("nodes")["1"]["state"] == "silent"
    assert picture.state.rows("nodes")["2"]["state"] == "up"
    assert picture.state.rows("alarms")["silent:1"]["id"] == "SHOAL-5310"
    picture.update(look(4.0, status(1, 4.0), status(2, 4.0)))
    assert picture.state.rows("nodes")["1"]["state"] == "up"
    assert not picture.state.rows("alarms")["silent:1"]["active"]


def test_a_member_that_fails_is_shown_as_failed_at_once_and_one_that_leaves_is_gone() -> None:
    picture = Picture("run", "d")
    picture.update(look(0.0, status(1), status(2)))
    picture.update(look(0.5, members=[], events=[MemberLeft(1, True), MemberLeft(2, False)]))
    assert {key: row["state"] for key, row in picture.state.rows("nodes").items()} == {"1": "failed"}
    # Its silence is one alarm, not two.
    assert [row["id"] for row in picture.state.rows("alarms").values()] == ["SHOAL-5310"]
    picture.update(look(200.0))
    assert not picture.state.rows("nodes")


def test_a_member_that_never_answers_is_known_by_its_id() -> None:
    picture = Picture("run", "d")
    picture.update(look(0.0, members=[7, 8], own_node=8))
    assert {key: row["kind"] for key, row in picture.state.rows("nodes").items()} == {"7": "node"}
    picture.update(look(1.0, members=[8], own_node=8))
    assert not picture.state.rows("nodes")


def test_programs_are_on_the_lan_that_a_daemon_of_their_network_names() -> None:
    def daemon(node: int, network: str) -> dict[str, Any]:
        lan = f"norm://239.1.1.1:7474 on {network}"
        return status(node, kind=None, links=[{"name": "lan", "kind": "norm", "up": 1, "lan": lan}])

    one, two = daemon(100, "10.0.0.0/24"), daemon(101, "10.9.0.0/24")
    picture = Picture("run", "d")
    picture.update(look(0.0, one, two, status(1)))
    assert picture.state.rows("nodes")["1"]["lans"] == ["norm://239.1.1.1:7474 on 10.0.0.0/24"]
    picture.update(look(1.0, status(1)))
    assert picture.state.rows("nodes")["1"]["lans"] == ["norm://239.1.1.1:7474"]


def test_answers_of_strangers_break_nothing() -> None:
    picture = Picture("run", "d")
    hostile: list[Any] = [
        {"node": 1},
        {"node": True, "links": []},
        {"node": "x"},
        {"node": 2, "links": [{"bytes_sent": math.nan, "round_trip_s": math.inf}, 5], "uptime_s": "long"},
        {"node": 3, "name": "x" * 10_000, "roles": [1, "y" * 9999], "store": {"name": 5, "queues": "no"}},
        {"node": 4, "links": [{"messages_sent": 10**30}], "statistics": [], "capacity": 5, "cpu_s": []},
    ]
    for at in (0.0, 1.0, 2.0):
        picture.update(
            look(at, *hostile, stores={"s": {"queues": [5, {"queue": None}], "subscriptions": {}}})
        )
    text = picture.state.snapshot(picture.state.names)
    assert "NaN" not in text
    assert "Infinity" not in text
    assert len(text) < 20_000


def test_queues_grow_and_their_arrivals_come_from_history() -> None:
    picture = Picture("run", "d")
    for at, depth, stored in ((0.0, 10, 100), (2.0, 16, 120), (4.0, 16, 140)):
        picture.update(
            look(
                at, stores={"s": {"queues": [queue("q", depth)]}}, topics={"s": {"_queue/q": stored, "t": 5}}
            )
        )
    row = picture.state.rows("queues")["s/q"]
    assert (row["messages"], row["growth_s"], row["in_s"], row["out_s"]) == (16, 0.0, 10, 10)
    # Queues are no topics.
    assert list(picture.state.rows("topics")) == ["t"]


def test_a_look_without_a_list_of_queues_leaves_them_as_they_are() -> None:
    picture = Picture("run", "d")
    picture.update(look(0.0, stores={"s": {"queues": [queue("q", 3)]}}))
    picture.update(look(1.0))
    assert picture.state.rows("queues")["s/q"]["messages"] == 3
    picture.update(look(2.0, stores={"s": {"queues": []}}))
    assert not picture.state.rows("queues")


def test_a_store_that_nobody_hears_of_any_more_is_silent() -> None:
    store = {"name": "s", "state": "recording", "end": 5, "queues": [], "sync": {}, "rate": {}}
    picture = Picture("run", "d")
    picture.update(look(0.0, status(1, store=store), stores={"s": {"queues": []}}))
    assert picture.state.rows("stores")["s"]["state"] == "recording"
    picture.update(look(1.0, stores={}))
    assert picture.state.rows("stores")["s"]["state"] == "silent"
    assert picture.state.rows("alarms")["store:s"]["active"]


def test_queues_of_a_store_that_does_not_answer_stay_in_view_for_a_while() -> None:
    picture = Picture("run", "d")
    picture.update(look(0.0, stores={"s": {"queues": [queue("q", 3)]}, "t": {"queues": [queue("r", 1)]}}))
    picture.update(look(60.0, stores={"t": {"queues": []}}))
    assert list(picture.state.rows("queues")) == ["s/q"]
    assert picture.state.rows("stores")["s"]["state"] == "silent"
    picture.update(look(121.0, stores={"t": {"queues": []}}))
    assert not picture.state.rows("queues")


def test_a_store_of_its_own_stays_open_between_two_lists() -> None:
    picture = Picture("run", "d")
    for at, stores in ((0.0, {"s": {"queues": []}}), (1.0, None), (2.0, None), (3.0, {"s": {"queues": []}})):
        picture.update(look(at, stores=stores))
        assert picture.state.rows("stores")["s"]["state"] == "open"
    assert not picture.state.rows("alarms")


def test_a_durable_subscription_without_a_consumer_is_away_since_then() -> None:
    told = {"key": "k", "name": "audit", "durable": True, "messages": 5, "consumers": 1, "patterns": ["a/>"]}
    picture = Picture("run", "d")
    picture.update(look(0.0, stores={"s": {"subscriptions": [told]}}))
    assert picture.state.rows("subscriptions")["s/k"]["away"] is None
    for at in (1.0, 9.0):
        picture.update(look(at, stores={"s": {"subscriptions": [told | {"consumers": 0}]}}))
    assert picture.state.rows("subscriptions")["s/k"]["away"] == round(1e9 + 1)


def test_topics_have_the_nodes_that_subscribe_now() -> None:
    picture = Picture("run", "d")
    events = [SubscriptionsChanged(1, ("a/*", "_store/x"), ()), SubscriptionsChanged(2, ("a/*", "b"), ())]
    picture.update(look(0.0, events=events))
    assert picture.state.rows("topics")["a/*"]["nodes"] == ["1", "2"]
    picture.update(look(1.0, events=[MemberLeft(2, False), SubscriptionsChanged(1, (), ("a/*",))]))
    assert not picture.state.rows("topics")


def test_a_member_that_takes_requests_of_clients_is_a_store() -> None:
    picture = Picture("run", "d")
    events = [SubscriptionsChanged(7, ("_store/0123456789abcdef/in",), ())]
    picture.update(look(0.0, members=[7, 8], events=events, stores={"main": {"queues": []}}))
    names = {key: (row["kind"], row["name"]) for key, row in picture.state.rows("nodes").items()}
    assert names == {"7": ("store", "store main"), "8": ("node", "8")}


def test_dead_letters_and_full_queues_are_alarms_until_they_are_over() -> None:
    picture = Picture("run", "d")

    def update(at: float, dead: int, size: int) -> None:
        full = queue("q", 5, dead_letter="dead", backlog_max_bytes=100) | {"bytes": size}
        picture.update(look(at, stores={"s": {"queues": [full, queue("dead", dead)]}}))

    update(0.0, 0, 79)
    assert not picture.state.rows("alarms")
    update(1.0, 2, 80)
    assert {row["id"] for row in picture.state.rows("alarms").values()} == {"SHOAL-5322", "SHOAL-5323"}
    # It is over below 60 %, not before.
    update(2.0, 0, 61)
    assert {key: row["active"] for key, row in picture.state.rows("alarms").items()} == {
        "dead:s/dead": False,
        "backlog:s/q": True,
    }
    update(3.0, 0, 59)
    assert not any(row["active"] for row in picture.state.rows("alarms").values())


def test_events_are_counted_in_one_alarm_until_it_is_acknowledged() -> None:
    picture = Picture("run", "d")
    for at in (0.0, 1.0):
        picture.update(look(at, events=[MessagesLost(5, 1, 2, 10, 12, 0)]))
    ((key, row),) = picture.state.rows("alarms").items()
    assert (row["count"], row["level"]) == (2, "warning")
    assert picture.acknowledge(1e9, key, "ada")
    assert picture.state.rows("alarms")[key]["acknowledged_by"] == "ada"
    assert not picture.alarms.open
    picture.update(look(2.0, events=[MessagesLost(5, 1, 2, 13, 13, 0)]))
    assert picture.state.rows("alarms")[key]["count"] == 1
    assert len(picture.alarms.open) == 1
    assert not picture.acknowledge(1e9, "nothing", "ada")
