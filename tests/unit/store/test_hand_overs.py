"""Deliveries are counted and marked by hand-overs to a program, and not by what a consumer was sent."""

from typing import Any

import pytest
from desk import Client, Desk, Tap

from shoal._core import SimulatedDisk
from shoal.bus.store_protocol import queue_topic
from shoal.store.readers import subscription_key
from shoal.testing import rows


@pytest.fixture
def desk() -> Desk:
    return Desk()


def counts(tap: Tap) -> dict[bytes, int]:
    return {body: count for _, body, count in tap.deliveries()}


def hand(tap: Tap, *bodies: bytes) -> None:
    """The client tells the store that its program has messages in hand."""
    answer = tap.client.ask("handed", consumer=tap.number, lease=tap.lease, offsets=tap._runs(bodies))
    assert answer["op"] == "answer"


def origin(tap: Tap) -> dict[str, Any]:
    """The store, the session and the lease that a report is about."""
    hello = tap.client.hello
    named = {"store": hello["store"], "incarnation": hello["incarnation"]}
    return {**named, "lease": tap.lease, "sessions": [tap.client.name]}


def report(tap: Tap, *, handed: tuple[bytes, ...] = (), finished: tuple[bytes, ...] = ()) -> dict[str, Any]:
    """What a client says of its last lease."""
    return {
        **origin(tap),
        "finished": tap._runs(finished),
        "handed": tap._runs(handed),
        "counts": {tap.offset(body): count for body, count in counts(tap).items() if count != 1},
    }


def filled(desk: Desk, name: str = "a", **hello: Any) -> tuple[Client, Tap]:
    client = desk.client(name, **hello)
    client.put("q", b"1", b"2", b"3")
    return client, client.consume("q")


def test_a_client_that_dies_counts_what_it_had_in_hand_and_nothing_else(desk: Desk) -> None:
    _, tap = filled(desk, lease_s=5)
    hand(tap, b"1")
    desk.wait(6)
    again = desk.client("b").consume("q")
    assert counts(again) == {b"1": 2, b"2": 0, b"3": 0}, "the rest is marked, without a count"


def test_a_worker_killed_on_one_message_takes_no_other_to_the_dead_letters(desk: Desk) -> None:
    desk.client("first").ask("declare", queue="q", deliveries_max=3)
    desk.client("sender").put("q", b"bad", b"1", b"2")
    for life in range(3):
        worker = desk.client(f"w{life}", lease_s=5).consume("q")
        hand(worker, b"bad")
        desk.wait(6)
    last = desk.client("last")
    assert sorted(last.consume("q").bodies()) == [b"1", b"2"]
    assert last.consume("dead-letters").bodies() == [b"bad"]


def test_after_a_crash_of_the_store_what_nobody_was_handed_is_not_marked(desk: Desk) -> None:
    _, tap = filled(desk)
    former = report(tap, handed=(b"1",))
    desk.crash()
    again = desk.client("a2")
    again.put("q", b"later")
    assert counts(again.consume("q", former=former)) == {b"1": 2, b"2": 1, b"3": 1, b"later": 1}


def test_after_a_crash_of_the_store_what_the_program_finished_does_not_come_again(desk: Desk) -> None:
    _, tap = filled(desk)
    former = report(tap, finished=(b"1", b"3"))
    desk.crash()
    assert counts(desk.client("a2").consume("q", former=former)) == {b"2": 1}
    assert desk.machine.status()["queues"][0]["messages"] == 1


def test_a_report_that_is_repeated_counts_once(desk: Desk) -> None:
    _, tap = filled(desk)
    former = report(tap, handed=(b"1",))
    for run in range(3):
        desk.crash()
        again = desk.client(f"run {run}".replace(" ", "-"))
        tap = again.consume("q", former=former)
        former["sessions"].append(again.name)
    assert counts(tap) == {b"1": 2, b"2": 1, b"3": 1}


def returning() -> Desk:
    """A store whose consumers have three seconds to come back when it starts again."""
    return Desk(return_s=3.0)


def test_after_a_crash_only_what_an_absent_consumer_was_granted_is_marked() -> None:
    desk = returning()
    client = desk.client("a")
    client.put("q", *(b"%d" % n for n in range(1000)))
    client.consume("q", messages=3)
    desk.crash()
    tap = desk.client("b").consume("q", messages=2000)
    assert len(tap.bodies()) == 997, "the absent one may come back and say what it handed over"
    desk.wait(4)
    assert {body: count for body, count in counts(tap).items() if count != 1} == {b"0": 0, b"1": 0, b"2": 0}
    assert len(tap.bodies()) == 1000


def test_of_messages_that_wait_behind_urgent_ones_none_is_marked() -> None:
    desk = returning()
    client = desk.client("a")
    client.put("q", b"low", b"lower", priority=1)
    client.put("q", b"high", b"higher", priority=9)
    client.consume("q", messages=2)
    desk.crash()
    tap = desk.client("b").consume("q")
    desk.wait(4)
    assert counts(tap) == {b"low": 1, b"lower": 1, b"high": 0, b"higher": 0}


def test_consumers_that_come_back_one_after_the_other_get_no_marked_messages() -> None:
    desk = returning()
    desk.client("sender").put("q", *(b"%d" % n for n in range(8)))
    taps = [desk.client(name).consume("q", messages=3) for name in ("a", "b")]
    formers = [report(tap) for tap in taps]
    desk.crash()
    second = desk.client("b2").consume("q", former=formers[1])
    assert counts(second) == {b"3": 1, b"4": 1, b"5": 1, b"6": 1, b"7": 1}
    first = desk.client("a2").consume("q", former=formers[0])
    assert counts(first) | counts(second) == {b"%d" % n: 1 for n in range(8)}


def test_one_that_does_not_come_back_leaves_marks_without_a_count() -> None:
    desk = returning()
    desk.client("sender").put("q", b"1", b"2", b"3")
    mine, _ = desk.client("a").consume("q", messages=1), desk.client("b").consume("q", messages=1)
    former = report(mine)
    desk.crash()
    client = desk.client("a2")
    tap = client.consume("q", former=former)
    client.put("q", b"later")
    assert counts(tap) == {b"1": 1, b"3": 1, b"later": 1}
    desk.wait(4)
    assert counts(tap) == {b"1": 1, b"2": 0, b"3": 1, b"later": 1}
    assert tap.release(b"2")["op"] == "answer"
    assert counts(tap)[b"2"] == 2, "one hand-over is known"


def test_a_client_that_was_silent_and_comes_back_takes_its_marks_away(desk: Desk) -> None:
    _, tap = filled(desk, lease_s=5)
    former = report(tap, handed=(b"1",))
    desk.wait(6)
    again = desk.client("a2").consume("q", former=former)
    assert counts(again) == {b"1": 2, b"2": 1, b"3": 1}


def test_a_mark_stays_once_another_consumer_was_given_the_message(desk: Desk) -> None:
    _, tap = filled(desk, lease_s=5)
    former = report(tap)
    desk.wait(6)
    other = desk.client("b", lease_s=5).consume("q", messages=1)
    assert counts(other) == {b"1": 0}
    desk.client("a2").consume("q", former=former, messages=0)
    theirs = report(other)
    desk.crash()
    last = desk.client("b2").consume("q", former=theirs)
    assert counts(last) == {b"1": 0, b"2": 1, b"3": 1}


def test_nothing_is_sent_before_the_log_says_durably_to_whom_it_was_granted() -> None:
    desk = Desk(SimulatedDisk(3))
    client = desk.client("a")
    client.put("q", b"1", b"2")
    client.tell("consume", queue="q", consumer=1, messages=9, bytes=99)
    delivered = []
    for _ in range(3):
        if desk.machine.append(desk.now):
            assert not [body for _, body in delivered if body["op"] == "deliver"]
            desk.log.sync()
        desk.machine.settle(desk.now)
        delivered += desk.machine.poll_transmit()
    assert [body["first"] for _, body in delivered if body["op"] == "deliver"] == [0]
    desk.crash()
    assert counts(desk.client("b").consume("q")) == {b"1": 0, b"2": 0}


def test_a_message_for_a_consumer_that_waits_is_granted_with_its_own_sync(desk: Desk) -> None:
    taps = [desk.client(name).consume("q", messages=2) for name in ("a", "b")]
    sender, before = desk.client("s"), desk.syncs
    for number in range(3):
        sender.put("q", b"%d" % number)
    assert desk.syncs - before == 3
    assert sorted(body for tap in taps for body in tap.bodies()) == [b"0", b"1", b"2"]
    desk.crash()
    assert counts(desk.client("c").consume("q")) == {b"0": 0, b"1": 0, b"2": 0}


def test_what_was_foreseen_for_a_consumer_and_not_given_to_it_is_not_marked(desk: Desk) -> None:
    client = desk.client("a")
    client.consume("q", messages=5)
    client.put("q", b"soon", b"later", delay_us=60_000_000)
    client.put("q", b"now")
    desk.crash()
    tap = desk.client("b", lease_s=100).consume("q")
    desk.wait(61)
    assert counts(tap) == {b"now": 0, b"soon": 1, b"later": 1}


def test_what_goes_to_another_consumer_than_foreseen_is_marked_after_a_crash(desk: Desk) -> None:
    """Priorities decide otherwise than the order of the rows, and one message waits."""
    desk.client("w").put("q", b"later", delay_us=60_000_000)
    taps = [desk.client(name).consume("q", messages=2) for name in ("a", "b")]
    topic, sender = queue_topic("q"), desk.client("s")
    messages = [
        (number, desk.now.wall_us, rows.record(topic, b"%d" % number, priority=priority))
        for number, priority in enumerate((9, 1, 9, 1), 1)
    ]
    content = rows.encode(sender.publisher, 5, messages)
    sender.tell("send", publisher=sender.publisher, chain=5, after=0, rows=content, live=False)
    desk.run()
    assert [tap.bodies() for tap in taps] == [[b"1", b"3"], [b"2", b"4"]]
    desk.crash()
    assert counts(desk.client("c").consume("q")) == {b"1": 0, b"2": 0, b"3": 0, b"4": 0}


def test_deliveries_max_holds_when_the_store_dies_with_every_delivery(desk: Desk) -> None:
    client = desk.client("a0")
    client.ask("declare", queue="q", deliveries_max=3)
    client.put("q", b"1")
    tap = client.consume("q")
    for life in range(1, 4):
        former = report(tap, handed=(b"1",))
        desk.crash()
        client = desk.client(f"a{life}")
        tap = client.consume("q", former=former)
    assert tap.bodies() == []
    assert client.consume("dead-letters").bodies() == [b"1"]


def test_a_report_of_more_than_anybody_can_have_is_refused(desk: Desk) -> None:
    client, tap = filled(desk)
    former = {**origin(tap), "handed": [0, 1 << 60]}
    answer = client.ask(
        "consume",
        queue="q",
        consumer=9,
        messages=1,
        bytes=1,
        former=former,
    )
    assert answer["error"] == "BAD_REQUEST"


def test_a_report_of_messages_that_are_gone_from_the_log_harms_nobody(desk: Desk) -> None:
    client, tap = filled(desk)
    former = report(tap, handed=(b"1",), finished=(b"2",))
    tap.ack(b"1", b"2", b"3")
    desk.log.seal()
    client.put("q", b"4")
    desk.log.trim(3)
    desk.crash()
    assert desk.log.floor > 0
    assert desk.client("a2").consume("q", former=former).bodies() == [b"4"]


def test_what_a_client_finished_is_done_though_another_has_its_group_and_it_is_behind_the_window() -> None:
    desk = Desk(queue_window=2)
    client = desk.client("a")
    for number in range(6):
        client.put("q", b"%d" % number, group="g")
    tap = client.consume("q")
    assert len(tap.bodies()) == 6
    former = report(tap, finished=(b"5",))
    desk.crash()
    other = desk.client("b").consume("q", messages=1)
    assert other.bodies() == [b"0"]
    again = desk.client("a2").consume("q", former=former)
    other.client.ask("credit", consumer=other.number, messages=1000, bytes=1 << 40)
    for _ in range(6):
        taken = sorted({*other.bodies(), *again.bodies()})
        other.ack(*other.bodies())
    assert taken == [b"0", b"1", b"2", b"3", b"4"]
    desk.crash()
    assert b"5" not in desk.client("c").consume("q").bodies()


def test_what_a_client_finished_is_done_though_its_group_is_kept_for_a_consumer_that_is_not_back() -> None:
    desk = Desk(queue_window=2, return_s=3.0)
    client = desk.client("a")
    for number in range(6):
        client.put("q", b"%d" % number, group="g")
    assert client.consume("q", messages=1).bodies() == [b"0"]
    former = {**origin(desk.client("b").consume("q", messages=0)), "finished": [5, 5]}
    desk.crash()
    tap = desk.client("b2", lease_s=100).consume("q", former=former)
    desk.wait(4)
    assert tap.bodies() == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("other", [{"incarnation": "ff" * 16}, {"store": "00"}, {"store": None}])
def test_a_report_of_another_store_or_incarnation_finishes_nothing(desk: Desk, other: dict[str, Any]) -> None:
    client, tap = filled(desk)
    former = report(tap, finished=(b"1", b"2"), handed=(b"3",))
    client.ask("bye")
    again = desk.client("b").consume("q", former=former | other)
    assert counts(again) == {b"1": 1, b"2": 1, b"3": 1}, "it is about other messages"


def test_a_report_of_a_lease_before_a_seek_is_void(desk: Desk) -> None:
    client = desk.client("a", client_id="c", lease_s=5)
    tap = client.subscribe("t", name="s", durable=True)
    desk.client("p", lease_s=3600).send("t", b"1", b"2", b"3")
    tap.ack(b"1", b"2", b"3")
    former = report(tap, finished=(b"1", b"2", b"3"))
    desk.wait(6)
    tool = desk.client("tool", client_id="c")
    assert tool.ask("seek", name="s", to="earliest")["op"] == "answer"
    tool.ask("bye")
    desk.crash()
    again = desk.client("a2", client_id="c").subscribe("t", name="s", durable=True, former=former)
    assert again.bodies() == [b"1", b"2", b"3"]
    # Its own lease counts.
    former = report(again, finished=(b"1", b"2"))
    desk.crash()
    last = desk.client("a3", client_id="c").subscribe("t", name="s", durable=True, former=former)
    assert last.bodies() == [b"3"]


def behind(desk: Desk, messages: int) -> tuple[Client, Tap]:
    """A durable subscription with a backlog, and its consumer, which may hold four messages."""
    client = desk.client("a", client_id="a")
    client.subscribe("t/>", name="s", durable=True, start="earliest", messages=0).cancel()
    client.send("t/1", *(b"%d" % n for n in range(messages)))
    tap = client.subscribe("t/>", name="s", durable=True, messages=4)
    return client, tap


def follow(tap: Tap, until: int) -> None:
    """The consumer acknowledges two messages, and has credit for two more, until it has so many."""
    while len(tap.bodies()) < until:
        done = len(tap.bodies()) - 2
        tap.client.tell(
            "ack", consumer=tap.number, lease=tap.lease, offsets=tap._runs(tap.bodies()[done - 2 : done])
        )
        tap.client.tell("credit", consumer=tap.number, messages=done + 4, bytes=1 << 30)
        tap.client.desk.run()


def test_a_fast_consumer_that_is_behind_waits_for_no_grant() -> None:
    desk = returning()
    _, tap = behind(desk, 100)
    follow(tap, 8)
    before = desk.syncs
    follow(tap, 80)
    assert desk.syncs - before < 20, "36 deliveries"


def test_after_a_crash_what_a_fast_consumer_was_granted_ahead_is_marked_and_nothing_else() -> None:
    desk = returning()
    _, tap = behind(desk, 100)
    follow(tap, 40)
    desk.crash()
    again = desk.client("b", client_id="a").subscribe("t/>", name="s", durable=True)
    desk.wait(4)
    marked = [int(body) for body, count in counts(again).items() if count != 1]
    assert {36, 37, 38, 39} <= set(marked), "the consumer has them"
    assert max(marked) < 40 + 4, "it may hold four"
    assert max(counts(again), key=int) == b"99"


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_a_consumer_was_granted_ahead_is_not_marked_when_it_ends(is_closed: bool) -> None:
    desk = returning()
    _, tap = behind(desk, 100)
    follow(tap, 40)
    if is_closed:
        tap.cancel()
    else:
        desk.wait(16)
    key = subscription_key("s", "a", shared=False, durable=True)
    assert all(end <= tap.offset(b"39") + 1 for _, end, _ in desk.log.grants(key))
    desk.crash()
    again = desk.client("b", client_id="a").subscribe("t/>", name="s", durable=True)
    desk.wait(4)
    marked = {int(body) for body, count in counts(again).items() if count != 1}
    assert marked == (set() if is_closed else {36, 37, 38, 39})


def test_a_redelivery_to_a_fast_consumer_takes_no_mark_from_what_it_holds() -> None:
    desk = returning()
    _, tap = behind(desk, 100)
    follow(tap, 40)
    tap.release(b"37", seen=False)
    tap.credit(41)
    assert tap.bodies()[-1] == b"37"
    desk.wait(16)
    desk.crash()
    again = desk.client("b", client_id="a").subscribe("t/>", name="s", durable=True)
    desk.wait(4)
    assert {int(body) for body, count in counts(again).items() if count != 1} == {36, 37, 38, 39}


def test_a_consumer_that_ended_while_the_store_was_away_reports_what_its_program_did(desk: Desk) -> None:
    _, tap = filled(desk)
    said = report(tap, handed=(b"2",), finished=(b"1",))
    desk.crash()
    client = desk.client("a2")
    assert client.ask("report", queue="q", consumer=tap.number, former=said)["op"] == "answer"
    assert counts(client.consume("q")) == {b"2": 2, b"3": 1}, "the rest was not handed over"


def test_a_report_makes_no_queue_and_no_subscription(desk: Desk) -> None:
    _, tap = filled(desk)
    said = report(tap, handed=(b"2",))
    client = desk.client("b")
    named = {"patterns": ["x"], "name": "all", "durable": True, "shared": True}
    for what in ({"queue": "other"}, named):
        assert client.ask("report", consumer=9, former=said, **what)["op"] == "answer"
    status = desk.machine.status()
    assert [each["name"] for each in status["queues"]] == ["q"]
    assert status["subscriptions"] == []


def test_a_report_about_another_store_changes_nothing(desk: Desk) -> None:
    _, tap = filled(desk)
    said = report(tap, finished=(b"1",)) | {"store": "0" * 16}
    desk.crash()
    client = desk.client("a2")
    assert client.ask("report", queue="q", consumer=tap.number, former=said)["op"] == "answer"
    assert set(counts(client.consume("q"))) == {b"1", b"2", b"3"}
