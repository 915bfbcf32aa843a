"""What of a store's machine is bounded, and what happens at the bound."""

import pytest
from desk import Client, Desk, Tap

from shoal.store import serving
from shoal.testing import rows


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("crashes", [False, True])
def test_an_urgent_message_behind_the_window_goes_first_and_everything_goes_once(crashes: bool) -> None:
    desk = Desk(queue_window=8)
    client = desk.client("a", lease_s=1000)
    usual = [b"%d" % n for n in range(50)]
    client.put("q", *usual)
    client.put("q", b"urgent", priority=9)
    client.put("q", b"less", priority=5)
    if crashes:
        desk.crash()
        client = desk.client("a", lease_s=1000)
    tap = client.consume("q", messages=3)
    assert tap.bodies() == [b"urgent", b"less", b"0"]
    tap.ack(b"urgent")
    if crashes:
        desk.crash()
        client = desk.client("b", lease_s=1000)
        tap = client.consume("q", messages=0)
    tap.credit(100)
    left = [body for body in tap.bodies() if body != b"urgent"]
    assert sorted(left, key=lambda body: (body != b"less", tap.offset(body))) == [b"less", *usual]
    tap.ack(*left)
    assert desk.machine.status()["queues"][0]["messages"] == 0


def test_more_urgent_messages_than_the_window_has_room_for_all_come_before_the_others() -> None:
    desk = Desk(queue_window=8)
    client = desk.client("a", lease_s=1000)
    client.put("q", *(b"usual" for _ in range(20)))
    for n in range(40):
        client.put("q", b"urgent %d" % n, priority=6)
    tap = client.consume("q", messages=1)
    for n in range(1, 60):
        tap.credit(1 + n)
    found = tap.bodies()
    assert found == [b"urgent %d" % n for n in range(40)] + 20 * [b"usual"]


def test_what_expires_goes_to_the_dead_letter_queue_if_it_was_told_so_though_nobody_consumes(
    desk: Desk,
) -> None:
    client = desk.client("a", lease_s=1000)
    client.put("q", b"early", ttl_us=1_000_000)
    client.ask("declare", queue="q", dead_letter="dead", dead_letter_expired=True)
    client.put("q", b"later", ttl_us=3_000_000)
    client.put("q", b"stays")
    desk.wait(2)
    queues = {each["queue"]: each["messages"] for each in desk.machine.status()["queues"]}
    assert queues == {"q": 2, "dead": 1}
    desk.wait(3)
    desk.crash()
    client = desk.client("a", lease_s=1000)
    dead = client.consume("dead")
    assert dead.bodies() == [b"early", b"later"]
    body = next(each for each in client.heard if each["op"] == "deliver")
    record = next(iter(rows.decode(body["rows"], body["first"]))).record
    assert b"shoal_reason" in record
    assert b"expired" in record
    assert client.consume("q").bodies() == [b"stays"]
    desk.wait(10)
    assert dead.bodies() == [b"early", b"later"], "what was moved does not expire again"


def test_a_subscription_is_full_of_what_it_wants_and_not_of_the_rest(desk: Desk) -> None:
    client = desk.client("a", client_id="me", lease_s=1000)
    wanted = {"selector": "JMSPriority = 7", "backlog_max_bytes": 1000}
    tap = client.subscribe("t", name="s", durable=True, **wanted)
    tap.cancel()
    for _ in range(30):
        client.send("t", bytes(200))
    assert not client.refused()
    for _ in range(30):
        client.send("t", bytes(200), priority=7)
        if client.refused():
            break
    (refused,) = client.refused()
    assert (refused["error"], refused["first"]) == ("BACKLOG", 35)


def test_after_a_crash_it_is_known_how_much_a_subscription_has(desk: Desk) -> None:
    client = desk.client("a", client_id="me", lease_s=1000)
    client.subscribe("t", name="s", durable=True, backlog_max_bytes=1000).cancel()
    client.send("t", bytes(400), bytes(400))
    desk.crash()
    (status,) = desk.machine.status()["subscriptions"]
    assert status["messages"] == 2
    client = desk.client("b", lease_s=1000)
    client.send("t", bytes(400))
    assert client.refused()[0]["error"] == "BACKLOG"


def test_whoever_consumes_is_told_what_was_dropped_also_before_it_came(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.ask("declare", queue="q", backlog_max_bytes=500, on_full="drop_oldest")
    for n in range(5):
        client.put("q", b"%d" % n + bytes(150))
    tap = client.consume("q")
    told = [body for body in client.heard if body["op"] == "dropped"]
    assert [(body["consumer"], body["messages"]) for body in told] == [(tap.number, 2)]
    other = client.consume("q")
    assert [body["consumer"] for body in client.heard if body["op"] == "dropped"] == [tap.number]
    assert other.number != tap.number


def test_a_queue_that_stays_full_is_logged_now_and_then(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    client = desk.client("a", lease_s=1000)
    client.ask("declare", queue="q", backlog_max_bytes=500, on_full="drop_oldest")
    for n in range(20):
        client.put("q", b"%d" % n + bytes(150))
    assert caplog.text.count("SHOAL-3025") == 1
    desk.wait(20)
    client.put("q", bytes(150))
    assert "dropped its 17 oldest messages" in caplog.text


def test_a_subscription_that_nobody_consumes_keeps_only_what_is_its_own(desk: Desk) -> None:
    client = desk.client("a", client_id="me", lease_s=1000)
    client.subscribe("rare", name="s", durable=True).cancel()
    for _ in range(100):
        client.send("often", b"x")
    desk.wait(3)
    assert desk.machine.pin == 100
    desk.machine.set_space(None, "the disk is almost full")
    client.send("rare", b"x", b"x", b"x")
    assert not client.refused()
    desk.wait(3)
    assert desk.machine.pin == 100
    assert desk.machine.status()["subscriptions"][0]["ready"] == 1, "it takes no more room than it needs"
    desk.machine.set_space(None, "the disk is almost full")
    client.send("rare", b"y")
    (refused,) = client.refused()
    assert (refused["error"], "'s' of 'me' needs messages from offset 100" in refused["text"]) == (
        "FULL",
        True,
    )
    client.send("often", b"x", after=103)
    assert len(client.refused()) == 1
    desk.machine.set_space(None, None)
    client.send("rare", b"y")
    assert len(client.refused()) == 1


def test_what_another_store_keeps_is_refused_whoever_asks() -> None:
    desk = Desk(patterns=("orders/>", "orders"))
    client = desk.client("a", client_id="me")
    more = {"messages": 9, "bytes": 999}
    consumed = client.ask("consume", consumer=1, queue="news", **more)
    assert (consumed["error"], "only orders/>, orders" in consumed["text"]) == ("NOT_OWNED", True)
    assert client.ask("declare", queue="news")["error"] == "NOT_OWNED"
    for pattern in (">", "news", "*/1"):
        asked = client.ask("subscribe", consumer=1, patterns=[pattern], name="s", durable=True, **more)
        assert asked["error"] == "NOT_OWNED"
    client.send("news", b"x")
    assert client.refused()[0]["error"] == "NOT_OWNED"
    client.number = 0
    tap = client.subscribe("orders/*", name="s", durable=True)
    client.send("orders/1", b"x")
    assert tap.bodies() == [b"x"]
    client.ask("declare", queue="orders", deliveries_max=1)
    client.put("orders", b"dead")
    client.consume("orders").release(b"dead")
    assert client.consume("dead-letters").bodies() == [b"dead"], "a store has dead letters of its own"
    assert client.ask("declare", queue="temporary/7", temporary=True)["created"]


def delivery_runs(desk: Desk, key: str) -> int:
    """Runs of deliveries that the log keeps of a reader."""
    ((*_, runs),) = desk.log.readers(key)
    return runs


def test_messages_that_are_given_back_are_one_run_in_the_log_whatever_lies_between_them(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    for n in range(200):
        client.put("q", b"%d" % n)
        client.put("other", b"between")
    tap = client.consume("q")
    offsets = [offset for offset, *_ in tap.deliveries()]
    for offset in offsets[:100]:
        client.tell("release", consumer=tap.number, lease=tap.lease, offsets=[offset, offset], seen=True)
        desk.now_s += 0.001
    tap.cancel(handed=[offsets[100], offsets[-1]])
    # Those that were released one by one had come again.
    assert delivery_runs(desk, "queue/q") == 1
    desk.crash()
    again = desk.client("b").consume("q")
    assert {count for _, _, count in again.deliveries()} == {2}


def test_deliveries_beyond_their_part_of_the_state_lose_their_count_and_stay_marked(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.put("q", *(b"%d" % n for n in range(5000)))
    tap = client.consume("q", messages=5000)
    for offset, *_ in tap.deliveries():
        # Each waits for another time, so that no two make one run.
        fields = {"offsets": [offset, offset], "seen": True, "delay_s": 1.0 + offset / 1000}
        client.tell("release", consumer=tap.number, lease=tap.lease, **fields)
    desk.run()
    used, most = desk.log.state_bytes
    assert used < most / 2, "queues can be made"
    assert client.ask("declare", queue="another")["op"] == "answer"
    desk.crash()
    desk.now_s += 3600
    again = desk.client("b").consume("q", messages=5000)
    counts = [count for _, _, count in again.deliveries()]
    assert len(counts) == 5000
    assert set(counts) == {0, 2}, "marked, some without a count"


def test_a_limit_that_a_subscription_gets_later_counts_what_waits() -> None:
    desk = Desk()
    client, sender = desk.client("a", client_id="c"), desk.client("p")
    subscription = {"name": "s", "durable": True, "messages": 0}
    client.subscribe("t", **subscription).cancel()
    sender.send("t", *10 * [bytes(1000)])
    desk.restart()
    client, sender = desk.client("a", client_id="c"), desk.client("q")
    client.subscribe("t", **subscription, backlog_max_bytes=3000)
    sender.send("t", bytes(1000))
    assert [body["error"] for body in sender.refused()] == ["BACKLOG"]


def test_zero_takes_an_option_back(desk: Desk) -> None:
    client = desk.client("a", lease_s=1000)
    client.ask("declare", queue="q", backlog_max_bytes=100, expires_after_s=5.0)
    client.put("q", bytes(1000))
    assert [body["error"] for body in client.refused()] == ["BACKLOG"]
    client.ask("declare", queue="q", on_full="refuse")
    (queue,) = desk.machine.status()["queues"]
    assert (queue["backlog_max_bytes"], queue["expires_after_s"]) == (100, 5.0), "others stay"
    client.ask("declare", queue="q", backlog_max_bytes=0, expires_after_s=0)
    client.number -= 1
    client.put("q", bytes(1000))
    assert client.stored() == [1]
    desk.wait(60)
    (queue,) = desk.machine.status()["queues"]
    assert (queue["backlog_max_bytes"], queue["expires_after_s"]) == (None, None)


def test_what_waits_for_a_session_that_takes_nothing_is_bounded_in_bytes_and_number() -> None:
    unsent, many = serving.Unsent(), serving.Unsent()
    long = {"op": "deliver", "rows": bytes(serving.UNSENT_BYTES_MAX // 4)}
    assert [unsent.add(long) for _ in range(4)] == [True, True, True, False]
    assert not unsent, "nothing of it reaches the session"
    assert unsent.add({"rows": bytes(2 * serving.UNSENT_BYTES_MAX)}), "one answer may be long"
    assert all(many.add({}) for _ in range(serving.UNSENT_MAX))
    many.drop_first()
    assert many.add({})
    assert not many.add({})


@pytest.mark.parametrize("crashes", [False, True])
def test_ids_of_transactions_belong_to_the_client_that_chose_them(desk: Desk, crashes: bool) -> None:
    def commit(name: str, chain: int, **hello: str) -> object:
        client = desk.clients.get(name) or desk.client(name, **hello)
        content = rows.encode(client.publisher, chain, [(1, desk.now.wall_us, rows.record("t", b""))])
        fields = {"publisher": client.publisher, "chain": chain, "rows": content}
        return client.ask("commit", id="order-17", named=True, **fields)["repeated"]

    assert [commit("a", 6, client_id="one"), commit("b", 6, client_id="two"), commit("c", 6)] == 3 * [False]
    if crashes:
        desk.crash()
    assert [commit("a", 7, client_id="one"), commit("b", 7, client_id="two"), commit("c", 7)] == 3 * [True]


def drain(client: Client, tap: Tap, odd_only: bool) -> int:
    """Acknowledge what comes, or what has odd offsets of it, until no more comes; how many came."""
    given = 0
    while True:
        tap.credit(given + 4000)
        offsets = [offset for offset, *_ in tap.deliveries()][given:]
        if not offsets:
            return given
        given += len(offsets)
        done = [offset for offset in offsets if offset % 2 or not odd_only]
        runs = [at for offset in done for at in (offset, offset)]
        assert client.ask("ack", consumer=1, lease=tap.lease, offsets=runs)["op"] == "answer"


def test_gaps_that_acknowledgements_leave_are_bounded_and_close(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    client, count = desk.client("a", lease_s=1000), 24_000
    for _ in range(count // 1000):
        client.put("q", *([b""] * 1000))
    given = drain(client, client.consume("q", messages=0), odd_only=True)
    assert given < count, "or no bound was reached"
    assert desk.log.is_scattered
    used, most = desk.log.state_bytes
    assert used < most / 2
    assert "SHOAL-3047" in caplog.text
    desk.crash()
    client = desk.client("b", lease_s=1000)
    assert drain(client, client.consume("q", messages=0), odd_only=False) == count - given // 2
    assert not desk.log.is_scattered
    assert desk.machine.status()["queues"][0]["messages"] == 0


def test_a_selector_gets_the_oldest_messages_only_while_there_are_too_many_gaps() -> None:
    desk = Desk()
    client, count = desk.client("a", lease_s=1000), 24_000
    for _ in range(count // 1000):
        client.put("q", *([b""] * 1000))
    drain(client, client.consume("q", messages=0), odd_only=True)
    desk.crash()
    other = desk.client("b", lease_s=1000)
    tap = other.consume("q", messages=1000, selector="JMSPriority = 4")
    assert [offset for offset, *_ in tap.deliveries()] == [2 * at for at in range(64)]
