"""The store's machine: what is kept, who gets it, what becomes of it."""

import pytest
from desk import Desk

from shoal._core import Log
from shoal.bus.store_protocol import queue_topic
from shoal.testing import rows


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_message_is_stored_and_delivered_once(desk: Desk) -> None:
    sender, receiver = desk.client("a"), desk.client("b")
    sender.put("orders", b"1", b"2")
    assert sender.stored() == [2]
    tap = receiver.consume("orders")
    assert tap.deliveries() == [(0, b"1", 1), (1, b"2", 1)]
    assert tap.ack(b"1", b"2")["op"] == "answer"
    tap.cancel()
    assert receiver.consume("orders").bodies() == []
    assert desk.machine.status()["queues"][0]["messages"] == 0


def test_what_is_sent_again_is_one_message(desk: Desk) -> None:
    sender = desk.client("a")
    content = rows.encode(9, 5, [(n, 1, rows.record("_queue/q", b"%d" % n)) for n in (1, 2)])
    more = rows.encode(9, 5, [(n, 1, rows.record("_queue/q", b"%d" % n)) for n in (1, 2, 3)])
    for each in (content, content, more):
        sender.tell("send", publisher=9, chain=5, after=0, rows=each, key="k")
    desk.run()
    assert sender.stored() == [2, 2, 3]
    assert sender.consume("q").bodies() == [b"1", b"2", b"3"]


def test_rows_behind_a_hole_are_refused_with_the_highest_number_there_is(desk: Desk) -> None:
    sender = desk.client("a")
    sender.put("q", b"1")
    sender.number = 4
    sender.put("q", b"5")
    (refused,) = sender.refused()
    assert (refused["error"], refused["mark"], refused["first"], refused["last"]) == ("HOLE", 1, 5, 5)
    sender.number = 4
    sender.put("q", b"5", after=1)
    assert sender.stored() == [1, 5]


@pytest.mark.parametrize("content", [b"", b"\x01\0\0\0", b"\xff" * 30])
def test_rows_that_cannot_be_read_are_refused(desk: Desk, content: bytes) -> None:
    sender = desk.client("a")
    sender.tell("send", publisher=9, chain=5, after=0, rows=content, key="k")
    desk.run()
    assert [each["error"] for each in sender.refused()] == ["BAD_ROWS"]


def test_nothing_is_answered_before_it_is_durable(desk: Desk) -> None:
    sender = desk.client("a")
    content = rows.encode(9, 5, [(1, 1, rows.record("_queue/q", b"x"))])
    sender.tell("send", publisher=9, chain=5, after=0, rows=content, key="k")
    assert desk.machine.append(desk.now)
    assert desk.machine.poll_transmit() == []
    desk.log.sync()
    desk.machine.settle(desk.now)
    assert [body["op"] for _, body in desk.machine.poll_transmit()] == ["stored"]


def test_two_consumers_share_a_queue(desk: Desk) -> None:
    sender, one, two = desk.client("a"), desk.client("b"), desk.client("c")
    taps = [one.consume("q"), two.consume("q")]
    for n in range(40):
        sender.put("q", b"%d" % n)
    bodies = [tap.bodies() for tap in taps]
    assert sorted([each for some in bodies for each in some]) == sorted(b"%d" % n for n in range(40))
    assert min(map(len, bodies)) >= 10


def test_credit_bounds_what_is_delivered(desk: Desk) -> None:
    client = desk.client("a")
    tap = client.consume("q", messages=2)
    client.put("q", *(b"%d" % n for n in range(10)))
    assert len(tap.bodies()) == 2
    tap.credit(5)
    assert tap.bodies() == [b"%d" % n for n in range(5)]
    assert tap.credit(3)["messages"] == 5
    client.put("q", b"more")
    assert len(tap.bodies()) == 5


def test_higher_priorities_go_first(desk: Desk) -> None:
    client = desk.client("a")
    for priority in (1, 9, 4, 9):
        client.put("q", b"%d" % priority, priority=priority)
    assert client.consume("q").bodies() == [b"9", b"9", b"4", b"1"]


def test_a_message_given_back_comes_again_and_says_so(desk: Desk) -> None:
    client = desk.client("a")
    client.put("q", b"x")
    tap = client.consume("q")
    tap.release(b"x")
    tap.release(b"x", seen=False)
    assert [count for _, _, count in tap.deliveries()] == [1, 2, 2]


def test_what_nobody_has_seen_does_not_count_as_delivered(desk: Desk) -> None:
    client = desk.client("a")
    client.put("q", b"x", b"y")
    tap = client.consume("q")
    tap.cancel(handed=[tap.offset(b"x")] * 2)
    again = client.consume("q")
    assert [(body, count) for _, body, count in again.deliveries()] == [(b"x", 2), (b"y", 1)]


def test_a_message_that_is_given_back_too_often_goes_to_the_dead_letter_queue(desk: Desk) -> None:
    client = desk.client("a")
    client.ask("declare", queue="q", deliveries_max=2, dead_letter="dead")
    client.put("q", b"x", ttl_us=10_000_000)
    tap = client.consume("q")
    tap.release(b"x")
    tap.release(b"x")
    desk.run()
    assert len(tap.bodies()) == 2
    dead = client.consume("dead")
    assert dead.bodies() == [b"x"]
    found = next(body for body in client.heard if body["op"] == "deliver" and body["consumer"] == dead.number)
    (row,) = rows.decode(found["rows"], found["first"])
    assert (row.publisher, row.chain, row.number) == (client.publisher, 5, 1), "its identity is the same"
    for text in (b"shoal_queue", b"shoal_reason", b"deliveries", b"shoal_deliveries"):
        assert text in row.record
    desk.wait(20)
    desk.crash()
    again = desk.client("a")
    assert again.consume("q").bodies() == []
    assert again.consume("dead").bodies() == [b"x"]


def test_back_off_keeps_a_message_back_for_longer_each_time(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.ask("declare", queue="q", backoff_s=1.0, backoff_max_s=3.0, deliveries_max=0)
    client.put("q", b"x")
    tap = client.consume("q")
    at = []
    for _ in range(4):
        began = desk.now_s
        seen = len(tap.deliveries())
        tap.release(b"x")
        while len(tap.deliveries()) == seen:
            desk.wait(0.25)
        at.append(desk.now_s - began)
    assert at == pytest.approx([1, 2, 3, 3], abs=0.3)


def test_a_message_may_be_given_back_however_often(desk: Desk) -> None:
    client = desk.client("a", lease_s=1e6)
    client.ask("declare", queue="q", backoff_s=0.01, backoff_max_s=0.02, deliveries_max=0)
    client.put("q", b"x")
    tap = client.consume("q", messages=5000)
    for _ in range(1100):
        tap.release(b"x")
        client.heard.clear()
        desk.wait(0.05)
        assert len(tap.deliveries()) == 1


def test_a_queue_into_which_somebody_sends_is_not_forgotten(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.ask("declare", queue="q", expires_after_s=3.0)
    for n in range(6):
        client.put("q", b"%d" % n)
        desk.wait(1)
    assert client.consume("q").bodies() == [b"%d" % n for n in range(6)]


def test_delay_and_expiry(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.put("q", b"late", delay_us=5_000_000)
    client.put("q", b"short", ttl_us=2_000_000)
    client.put("q", b"plain")
    tap = client.consume("q", messages=0)
    desk.wait(3)
    tap.credit(10)
    assert tap.bodies() == [b"plain"]
    desk.wait(3)
    assert tap.bodies() == [b"plain", b"late"]
    (status,) = desk.machine.status()["queues"]
    assert (status["expired"], status["messages"]) == (1, 2)


def test_time_counts_that_messages_waited_at_their_client_and_on_their_way(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000, at=5_000_000)
    record = rows.record(queue_topic("q"), b"short", ttl_us=2_000_000)
    content = [rows.encode(client.publisher, 5, [(number, 1, record)]) for number in (1, 2, 3)]
    request = {"publisher": client.publisher, "chain": 5}
    tap = client.consume("q", messages=0)
    client.tell("send", **request, after=0, rows=content[0], waited_us=1_500_000, at=5_000_000)
    client.tell("send", **request, after=1, rows=content[1])
    desk.run()
    # One that came 1 s later than the last, by the store's clock, and was sent at the same time.
    desk.wait(1.0)
    client.tell("send", **request, after=2, rows=content[2], at=5_000_000)
    desk.run()
    desk.wait(0.9)
    tap.credit(10)
    assert [offset for offset, _, _ in tap.deliveries()] == [1, 2], "the first had 0.5 s left"
    deliver = next(body for body in client.heard if body["op"] == "deliver")
    assert deliver["lives"] == {1: 100_000, 2: 100_000}
    assert deliver["at"] == int(desk.now_s * 1e6)
    assert client.ask("ping")["at"] == int(desk.now_s * 1e6)


def test_messages_of_one_sender_with_the_same_delay_stay_in_order_though_one_is_known_to_be_older(
    desk: Desk,
) -> None:
    """A store that stood still does not know how long the first was on its way; the second says so itself."""
    client = desk.client("a", lease_s=1000)
    tap = client.consume("q", messages=0)

    def sent(number: int, waited_us: int) -> None:
        record = rows.record(queue_topic("q"), b"%d" % number, delay_us=1_000_000)
        content = rows.encode(client.publisher, 5, [(number, 1, record)])
        request = {"publisher": client.publisher, "chain": 5, "after": number - 1}
        client.tell("send", **request, rows=content, waited_us=waited_us)
        desk.run()

    sent(1, 900_000)
    sent(2, 1_300_000)
    tap.credit(10)
    assert tap.bodies() == [], "the second is due, and waits for the first"
    desk.wait(0.2)
    assert tap.bodies() == [b"1", b"2"]
    # Nor when the store reads both from its log.
    tap.credit(0)
    sent(3, 900_000)
    sent(4, 1_300_000)
    desk.wait(0.2)
    desk.crash()
    again = desk.client("b", lease_s=1000).consume("q")
    assert [body for body in again.bodies() if body > b"2"] == [b"3", b"4"]


def test_a_group_stays_with_one_consumer_and_in_order(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    taps = [client.consume("q", messages=1), client.consume("q", messages=100)]
    for n in range(6):
        client.put("q", b"%d" % n, group="g")
    first = taps[0].bodies() + taps[1].bodies()
    owner = taps[0] if taps[0].bodies() else taps[1]
    other = taps[1] if owner is taps[0] else taps[0]
    assert other.bodies() == []
    assert first == sorted(first)
    owner.cancel(handed=[])
    other.credit(100)
    assert other.bodies() == [b"%d" % n for n in range(6)]


def test_a_delayed_redelivery_holds_its_group(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.put("q", b"1", group="g")
    tap = client.consume("q", messages=1)
    client.put("q", b"2", group="g")
    client.put("q", b"3")
    tap.release(b"1", delay_s=5)
    tap.credit(100)
    assert tap.bodies() == [b"1", b"3"]
    desk.wait(6)
    assert tap.bodies() == [b"1", b"3", b"1", b"2"]


def test_consumers_with_selectors_take_what_they_want(desk: Desk) -> None:
    client = desk.client("a")
    for n in range(20):
        client.put("q", b"%d" % n, priority=n % 10)
    high = client.consume("q", selector="JMSPriority > 7")
    assert high.bodies() == [b"8", b"9", b"18", b"19"]
    rest = client.consume("q")
    assert len(rest.bodies()) == 16
    client.put("q", b"x", priority=9)
    assert (high.bodies() + rest.bodies()).count(b"x") == 1


def test_browsing_takes_nothing(desk: Desk) -> None:
    client = desk.client("a")
    client.put("q", *(b"%d" % n for n in range(5)))
    page = client.ask("browse", queue="q", messages=3)
    assert [rows.body_of(row.record) for row in rows.decode(page["rows"], page["first"])] == [
        b"0",
        b"1",
        b"2",
    ]
    page = client.ask("browse", queue="q", start=page["next"], messages=3, selector="JMSPriority = 4")
    assert page["next"] is None
    assert [rows.body_of(row.record) for row in rows.decode(page["rows"], page["first"])] == [b"3", b"4"]
    assert len(client.consume("q").bodies()) == 5
    assert client.ask("browse", queue="nothing")["error"] == "EXISTS_NOT"


def test_a_durable_subscription_gets_what_came_while_it_was_away(desk: Desk) -> None:
    sender = desk.client("a")
    desk.client("b", client_id="desk").subscribe("t/>", name="s", durable=True).cancel()
    sender.send("t/1", b"1")
    sender.send("u/1", b"-")
    desk.crash()
    sender = desk.client("a")
    sender.number = 2
    sender.send("t/2", b"2")
    reader = desk.client("b", client_id="desk")
    tap = reader.subscribe("t/>", name="s", durable=True)
    assert not tap.answer["created"]
    sender.send("t/3", b"3")
    assert tap.bodies() == [b"1", b"2", b"3"]
    tap.ack(b"2")
    desk.crash()
    again = desk.client("b", client_id="desk").subscribe("t/>", name="s", durable=True)
    assert again.bodies() == [b"1", b"3"]
    assert all(count != 1 for _, _, count in again.deliveries()), "they may have been delivered before"


def test_after_an_orderly_restart_only_what_was_handed_over_is_marked(desk: Desk) -> None:
    client = desk.client("a")
    tap = client.consume("q", messages=2)
    client.put("q", b"1", b"2", b"3")
    assert tap.bodies() == [b"1", b"2"]
    client.ask("handed", consumer=tap.number, lease=tap.lease, offsets=[0, 0])
    desk.restart()
    named = {"store": client.hello["store"], "incarnation": client.hello["incarnation"]}
    former = {**named, "lease": tap.lease, "sessions": ["a"], "handed": [0, 0]}
    again = desk.client("a2").consume("q", former=former)
    assert [(body, count) for _, body, count in again.deliveries()] == [(b"1", 2), (b"2", 1), (b"3", 1)]


def test_a_subscription_keeps_to_its_selector_and_leaves_its_own_messages_out(desk: Desk) -> None:
    client, other = desk.client("a", client_id="me"), desk.client("b")
    tap = client.subscribe("t", name="s", durable=True, selector="JMSPriority > 4", no_local=True)
    for each in (client, other):
        each.send("t", b"low " + each.name.encode(), priority=1)
        each.send("t", b"high " + each.name.encode(), priority=9)
    assert tap.bodies() == [b"high b"]


def test_what_an_outbox_sends_is_local_too(desk: Desk) -> None:
    client = desk.client("a", client_id="me", kept=True)
    tap = client.subscribe("t", name="s", durable=True, no_local=True)
    for number, publisher in ((1, 77), (2, 77), (3, client.publisher)):
        content = rows.encode(publisher, 5, [(number, 1, rows.record("t", b"%d" % number))])
        client.tell("send", publisher=publisher, chain=5, after=0, rows=content, key="k")
    desk.run()
    desk.client("b").send("t", b"other")
    assert tap.bodies() == [b"other"]


def test_shared_subscriptions_divide_messages_and_are_kept_if_durable(desk: Desk) -> None:
    sender = desk.client("a")
    taps = [desk.client(name).subscribe("t", name="w", shared=True, durable=True) for name in ("b", "c")]
    for n in range(20):
        sender.send("t", b"%d" % n)
    assert sorted([each for some in (tap.bodies() for tap in taps) for each in some]) == sorted(
        b"%d" % n for n in range(20)
    )
    volatile = desk.client("d").subscribe("t", name="v", shared=True)
    sender.send("t", b"x")
    assert volatile.bodies() == [b"x"]
    volatile.cancel()
    assert [each["name"] for each in desk.machine.status()["subscriptions"]] == ["w"]


def test_subscriptions_get_what_the_store_heard_and_a_queue_does_not(desk: Desk) -> None:
    client = desk.client("a", client_id="me")
    assert desk.machine.poll_wanted() == set()
    mine = client.subscribe("t/*", name="mine", durable=True)
    ours = client.subscribe("t/>", name="ours", shared=True, selector="x IS NULL")
    assert desk.machine.poll_wanted() == {("t/*", None), ("t/>", "x IS NULL")}
    assert desk.machine.poll_wanted() is None
    client.send("t/1", b"kept")
    client.say("t/1", b"one", b"two")
    client.say("t/1/2", b"three")
    client.say("u", b"nobody's")
    assert mine.bodies() == [b"kept", b"one", b"two"]
    assert ours.bodies() == [b"kept", b"one", b"two", b"three"]
    ours.cancel()
    assert desk.machine.poll_wanted() == {("t/*", None)}


def test_what_is_heard_again_is_one_message_also_after_a_start(desk: Desk) -> None:
    client = desk.client("a", client_id="me")
    tap = client.subscribe("t", name="mine", durable=True)
    client.say("t", b"one", b"two")
    client.say("t", b"two", b"three", again=1)
    assert tap.bodies() == [b"one", b"two", b"three"]
    tap.ack(b"one", b"two", b"three")
    desk.crash()
    again = desk.client("a", client_id="me")
    again.publisher, again.said = client.publisher, client.said
    tap = again.subscribe("t", name="mine", durable=True)
    again.say("t", b"three", b"four", again=1)
    assert tap.bodies() == [b"four"]


def test_what_comes_into_the_log_by_itself_is_not_heard() -> None:
    desk = Desk(recorded=("r/>",))
    client = desk.client("a")
    tap = client.subscribe(">", name="all", shared=True)
    client.say("r/1", b"recorded")
    client.say("t", b"committed", chain=6)
    desk.machine.hear(desk.now, rows.encode(9, 2, [(1, 1, rows.record("t", b"persistent"))]))
    desk.machine.hear(desk.now, b"nonsense")
    client.say("t", b"heard")
    assert tap.bodies() == [b"heard"]


def test_what_is_heard_and_has_no_room_is_counted(desk: Desk) -> None:
    client = desk.client("a")
    tight = client.subscribe("t/1", name="tight", shared=True, backlog_max_bytes=100, messages=0)
    wide = client.subscribe("t/>", name="wide", shared=True)
    client.say("t/1", b"x" * 50)
    client.say("t/1", b"y" * 50)
    client.say("t/2", b"z" * 50)
    assert wide.bodies() == [b"x" * 50, b"z" * 50]
    assert desk.machine.status()["unheard"] == 1
    tight.credit(10)
    assert tight.bodies() == [b"x" * 50]
    desk.machine.set_space("the disk is full", None)
    client.say("t/2", b"lost")
    assert desk.machine.status()["unheard"] == 2


def test_a_client_id_belongs_to_one_live_session(desk: Desk) -> None:
    desk.client("a", client_id="me", lease_s=10)
    refused = desk.client("b", client_id="me").hello
    assert refused["error"] == "IN_USE"
    assert "me" in refused["text"]
    assert refused["retry_s"] == 10
    desk.wait(11)
    assert desk.client("c", client_id="me").hello["op"] == "answer"


def test_a_session_that_is_silent_loses_its_lease(desk: Desk) -> None:
    client, other = desk.client("a", lease_s=5), desk.client("b", lease_s=1000)
    client.put("q", b"x")
    tap = client.consume("q")
    desk.wait(6)
    assert [body["error"] for body in client.heard if body["op"] == "gone"] == ["NO_SESSION"]
    assert other.consume("q").deliveries() == [(0, b"x", 0)], "it may have been handed over"
    assert tap.ack(b"x")["error"] == "NO_SESSION"
    client.ask("hello", version=1, publisher=1)
    assert tap.ack(b"x")["error"] == "LEASE", "an older lease is refused, and told"
    assert [(each.publisher, each.chain) for each in desk.silent] == [(client.publisher, 5)]


def test_a_transaction_is_there_whole_or_not_at_all(desk: Desk) -> None:
    client = desk.client("a")
    client.put("in", b"1", b"2")
    tap = client.consume("in")
    watcher = desk.client("w").subscribe("t", name="s", shared=True, durable=True)
    content = [rows.record("_queue/out", b"A"), rows.record("t", b"B"), rows.record("_queue/out", b"C")]
    packed = rows.encode(client.publisher, 6, [(n, 1, each) for n, each in enumerate(content, 1)])
    ack = [tap.number, tap.lease, [tap.offset(b"1")] * 2]
    commit = {"id": "tx", "publisher": client.publisher, "chain": 6, "after": 0, "rows": packed, "topics": 1}
    answer = client.ask("commit", **commit, acks=[ack])
    assert answer["op"] == "answer"
    assert not answer["repeated"]
    assert client.ask("commit", **commit, acks=[ack])["repeated"]
    assert client.consume("out").bodies() == [b"A", b"C"]
    assert watcher.bodies() == [b"B"]
    assert desk.log.unpublished() == [(3, 4)], "the store publishes what is for a topic, and nothing else"
    desk.crash()
    client = desk.client("a")
    assert client.consume("in").bodies() == [b"2"]
    assert client.ask("commit", **commit, acks=[ack])["repeated"], "it is remembered"


def test_a_transaction_under_an_old_lease_does_nothing(desk: Desk) -> None:
    client = desk.client("a")
    client.put("in", b"1")
    tap = client.consume("in")
    packed = rows.encode(client.publisher, 6, [(1, 1, rows.record("_queue/out", b"A"))])
    commit = {"id": "tx", "publisher": client.publisher, "chain": 6, "after": 0, "rows": packed, "topics": 0}
    for lease, offset in ((tap.lease - 1, 0), (tap.lease, 77)):
        answer = client.ask("commit", **commit, acks=[[tap.number, lease, [offset, offset]]])
        assert answer["error"] == "LEASE"
    assert client.consume("out").bodies() == []
    assert client.ask("commit", **commit, acks=[[tap.number, tap.lease, [0, 0]]])["op"] == "answer"


def test_temporary_queues_go_with_their_connection(desk: Desk) -> None:
    client, other = desk.client("a"), desk.client("b")
    client.ask("declare", queue="temporary/1", temporary=True)
    other.put("temporary/1", b"x")
    assert client.consume("temporary/1").bodies() == [b"x"]
    tap = other.consume("temporary/1")
    client.ask("bye")
    assert [body["consumer"] for body in other.heard if body["op"] == "gone"] == [tap.number]
    other.send("_queue/temporary/1", b"z")
    assert [each["error"] for each in other.refused()] == ["EXISTS_NOT"]


def test_messages_for_temporary_topics_are_taken_and_those_for_other_reserved_topics_refused(
    desk: Desk,
) -> None:
    """Whether a temporary topic lives the members know who subscribe to it, and not a store that was away."""
    client = desk.client("a")
    client.send("_temporary/a/1", b"x")
    assert client.stored() == [1]
    client.send("_store/here", b"x")
    assert [each["error"] for each in client.refused()] == ["BAD_REQUEST"]


@pytest.mark.parametrize("how", ["restart", "another session"])
def test_a_temporary_queue_stays_while_its_connection_comes_back(desk: Desk, how: str) -> None:
    client, other = desk.client("a"), desk.client("b")
    client.ask("declare", queue="temporary/1", temporary=True)
    other.put("temporary/1", b"x")
    if how == "restart":
        desk.restart()
        other = desk.client("c")
    again = desk.client("a2", publisher=client.publisher, lease_s=100)
    other.put("temporary/1", b"y")
    assert not again.ask("declare", queue="temporary/1", temporary=True)["created"]
    assert again.consume("temporary/1").bodies() == [b"x", b"y"]
    desk.wait(30)
    again.ask("ping")
    # It has an owner again, and goes with that one.
    assert "temporary/1" in [each["name"] for each in desk.machine.status()["queues"]]
    again.ask("bye")
    assert "temporary/1" not in [each["name"] for each in desk.machine.status()["queues"]]


@pytest.mark.parametrize("how", ["restart", "silence"])
def test_a_temporary_queue_goes_if_its_connection_does_not_come_back(desk: Desk, how: str) -> None:
    client = desk.client("a")
    client.ask("declare", queue="temporary/1", temporary=True)
    client.put("temporary/1", b"x")
    if how == "restart":
        desk.restart()
    desk.wait(20)
    assert "temporary/1" not in [each["name"] for each in desk.machine.status()["queues"]]
    other = desk.client("b")
    other.send("_queue/temporary/1", b"y")
    assert [each["error"] for each in other.refused()] == ["EXISTS_NOT"]


def test_a_temporary_queue_is_of_one_connection(desk: Desk) -> None:
    desk.client("a").ask("declare", queue="temporary/1", temporary=True)
    assert desk.client("b").ask("declare", queue="temporary/1", temporary=True)["error"] == "DENIED"


def test_a_backlog_that_is_full_refuses_or_drops_the_oldest(desk: Desk) -> None:
    client = desk.client("a")
    client.ask("declare", queue="q", backlog_max_bytes=300, on_full="refuse")
    client.put("q", bytes(100), bytes(100))
    client.put("q", bytes(100))
    (refused,) = client.refused()
    assert refused["error"] == "BACKLOG"
    assert refused["destination"] == "_queue/q"
    assert "'q'" in refused["text"]
    client.ask("declare", queue="q", on_full="drop_oldest")
    client.number = 2
    client.put("q", b"new" * 40)
    tap = client.consume("q")
    assert tap.bodies() == [bytes(100), b"new" * 40]
    assert desk.machine.status()["queues"][0]["dropped"] == 1


def test_a_subscription_that_nobody_uses_expires(desk: Desk) -> None:
    client = desk.client("a", client_id="me", lease_s=1000)
    client.subscribe("t", name="s", durable=True, expires_after_s=10).cancel()
    desk.wait(8)
    assert len(desk.machine.status()["subscriptions"]) == 1
    desk.wait(8)
    assert desk.machine.status()["subscriptions"] == []
    desk.crash()
    assert desk.machine.status()["subscriptions"] == []


def test_unsubscribe_and_replace(desk: Desk) -> None:
    client = desk.client("a", client_id="me")
    tap = client.subscribe("t", name="s", durable=True)
    assert client.ask("unsubscribe", name="s")["error"] == "IN_USE"
    other = client.ask("subscribe", consumer=9, patterns=["t"], name="s", durable=True, messages=1, bytes=1)
    assert other["error"] == "IN_USE"
    tap.cancel()
    changed = {"consumer": 9, "patterns": ["u"], "name": "s", "durable": True, "messages": 9, "bytes": 999}
    assert client.ask("subscribe", **changed)["error"] == "DIFFERS"
    assert client.ask("subscribe", **changed, replace=True)["created"]
    client.ask("cancel", consumer=9)
    assert client.ask("unsubscribe", name="s")["op"] == "answer"
    assert client.ask("unsubscribe", name="s")["error"] == "EXISTS_NOT"


def test_purge_move_and_delete(desk: Desk) -> None:
    client = desk.client("a")
    for n in range(6):
        client.put("q", b"%d" % n, priority=n)
    assert client.ask("purge", queue="q", selector="JMSPriority < 2")["messages"] == 2
    assert client.ask("move", queue="q", to="r", messages=2)["messages"] == 2
    assert client.ask("browse", queue="q")["op"] == "answer"
    tap = client.consume("r")
    assert sorted(tap.bodies()) == [b"2", b"3"]
    assert client.ask("delete", queue="r")["error"] == "IN_USE"
    assert client.ask("delete", queue="q", if_empty=True)["error"] == "IN_USE"
    assert client.ask("delete", queue="q")["messages"] == 2
    client.put("q", b"new")
    assert client.consume("q").bodies() == [b"new"], "a queue of the same name begins empty"
    desk.crash()
    assert desk.client("a").consume("q").bodies() == [b"new"]


def test_a_reservation_is_the_same_set_until_it_is_acknowledged(desk: Desk) -> None:
    client = desk.client("a")
    client.put("q", *(b"%d" % n for n in range(6)))
    first = client.ask("reserve", name="spark", queue="q", start=-1, messages=3)
    assert (first["start"], first["end"], first["messages"]) == (0, 3, 3)
    client.put("q", b"6")
    desk.crash()
    client = desk.client("a")
    assert client.consume("q", messages=2).bodies() == [b"3", b"4"], "what is reserved is nobody else's"
    again = client.ask("reserve", name="spark", queue="q", start=0, messages=3)
    assert {key: again[key] for key in ("start", "end", "messages")} == {
        key: first[key] for key in ("start", "end", "messages")
    }
    found = client.ask("reserved", name="spark", start=0)
    assert (found["runs"], found["end"]) == ([0, 2], first["end"])
    assert client.ask("shown", queue="q")["runs"] == [5, 6], "what somebody has is not shown"
    following = client.ask("reserve", name="spark", queue="q", start=first["end"], messages=3)
    assert (following["start"], following["messages"]) == (3, 2)
    assert client.ask("reserve", name="spark", queue="q", start=99)["error"] == "BAD_REQUEST"
    assert client.ask("reserve", name="spark", queue="q", start=0)["error"] == "BAD_REQUEST", "it is done"
    assert client.ask("delete", queue="q")["error"] == "IN_USE"
    assert client.ask("unreserve", name="spark")["messages"] == 2
    desk.crash()
    assert desk.client("a").consume("q").bodies() == [b"3", b"4", b"5", b"6"]


def test_a_full_disk_refuses_messages_and_takes_acknowledgements(desk: Desk) -> None:
    client = desk.client("a")
    client.put("q", b"x")
    tap = client.consume("q")
    desk.machine.set_space("the disk has 3 bytes left", None)
    client.put("q", b"y")
    (refused,) = client.refused()
    assert refused["error"] == "FULL"
    assert "3 bytes" in refused["text"]
    assert tap.ack(b"x")["op"] == "answer"
    desk.machine.set_space(None, "the disk is almost full")
    client.number = 1
    client.put("q", b"z")
    client.put("other", b"z")
    desk.machine.set_space(None, "the disk is almost full")
    client.put("q", b"pinned")
    assert "'q'" in client.refused()[-1]["text"]
    assert "almost full" in client.refused()[-1]["text"]


def test_a_store_keeps_only_what_it_owns() -> None:
    desk = Desk(patterns=("prices/>", "orders"))
    client = desk.client("a")
    client.send("prices/1", b"x")
    client.put("orders", b"x")
    client.send("news", b"x")
    assert [each["error"] for each in client.refused()] == ["NOT_OWNED"]
    assert client.stored() == [1, 2]


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "consume", "queue": ""},
        {"op": "consume", "queue": "q", "consumer": -1},
        {"op": "consume", "queue": "q", "consumer": 1, "messages": "many", "bytes": 1},
        {"op": "consume", "queue": "q", "consumer": 1, "messages": 1, "bytes": 1, "selector": "1 >"},
        {"op": "subscribe", "patterns": [], "consumer": 1, "messages": 1, "bytes": 1},
        {"op": "subscribe", "patterns": ["a//b"], "consumer": 1, "messages": 1, "bytes": 1},
        {"op": "ack", "consumer": 1, "lease": 1, "offsets": [1]},
        {"op": "send", "publisher": 0, "chain": 5, "rows": b""},
        {"op": "commit", "id": "x", "acks": [[1]]},
        {"op": "nonsense"},
        {"op": 7},
        {"op": "bye", "handed": [7]},
    ],
)
def test_a_request_that_makes_no_sense_gets_an_answer_that_says_so(
    desk: Desk, request_: dict[str, object]
) -> None:
    client = desk.client("a")
    desk.machine.handle(desk.now, {"session": "a", "n": 99, **request_})
    desk.run()
    (failed,) = [body for body in client.heard if body.get("n") == 99]
    assert failed["error"] in ("BAD_REQUEST", "LEASE")
    assert failed["text"]


@pytest.mark.parametrize(
    "body", [None, 7, "x", b"x", [], {}, {"session": 7}, {"session": "a/b", "op": "hello"}]
)
def test_what_is_no_request_is_ignored(desk: Desk, body: object) -> None:
    desk.machine.handle(desk.now, body)
    desk.run()


def test_a_machine_works_over_a_log_in_memory() -> None:
    desk = Desk()
    desk.log = Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=64 << 20, segment_bytes=1 << 20)
    desk.machine = type(desk.machine)(desk.log, desk.machine.identity, desk.now)
    client = desk.client("a")
    client.put("q", b"x")
    assert client.consume("q").bodies() == [b"x"]


def test_deliveries_do_not_wait_for_acknowledgements_that_nobody_waits_for(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.put("q", b"x", b"y", b"z")
    tap = client.consume("q")
    acks = [
        {"consumer": tap.number, "lease": tap.lease, "offsets": 2 * [tap.offset(b)]} for b in (b"x", b"y")
    ]
    client.tell("ack", **acks[0])
    assert not desk.machine.append(desk.now)
    assert not desk.log.is_settled
    desk.now_s = desk.machine.poll_timeout()
    assert desk.machine.append(desk.now), "a moment later it has to be durable"
    desk.log.sync()
    client.tell("ack", **acks[1])
    assert not desk.machine.append(desk.now)
    client.ask("ping")
    assert desk.log.is_settled, "whoever is answered finds everything before it durable"
    desk.crash()
    assert desk.client("b").consume("q").bodies() == [b"z"]


def test_an_acknowledgement_that_was_lost_with_the_store_lets_the_message_come_again_marked(
    desk: Desk,
) -> None:
    client = desk.client("a", lease_s=1000)
    client.put("q", b"x")
    tap = client.consume("q")
    client.tell("ack", consumer=tap.number, lease=tap.lease, offsets=2 * [tap.offset(b"x")])
    assert not desk.machine.append(desk.now)
    desk.crash()
    assert desk.client("b").consume("q").deliveries() == [(0, b"x", 0)]


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_ends_no_session_and_loses_nothing(desk: Desk, jump_s: float) -> None:
    desk.jumped_s = 1e6
    client = desk.client("a", lease_s=10)
    client.put("q", b"before")
    tap = client.consume("q", messages=1)
    desk.jumped_s += jump_s
    client.put("q", b"after")
    desk.wait(1)
    assert [body for body in client.heard if body["op"] == "gone"] == []
    tap.ack(b"before")
    tap.credit(10)
    assert tap.bodies() == [b"before", b"after"]
    desk.crash()
    assert desk.client("b").consume("q").bodies() == [b"after"]
