"""Who gets what: patterns, both forms of topics, `no_local`, order, overflow, callbacks."""

import gc
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.errors import ClosedError, ConfigError, FullError, NoReplyError


def topics(subscription: shoal.Subscription) -> list[str]:
    return [message.topic for message in subscription.receive_nowait()]


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("prices/ACME", ["prices/ACME", "prices=ACME"]),
        ("prices/*", ["prices/ACME", "prices/EMCA", "prices=ACME"]),
        ("*/ACME", ["prices/ACME", "prices=ACME"]),
        ("prices/>", ["prices/ACME", "prices/EMCA", "prices/ACME/bid", "prices=ACME"]),
        (">", ["prices/ACME", "prices/EMCA", "prices/ACME/bid", "prices", "prices=ACME"]),
        ("prices=*", ["prices/ACME", "prices/EMCA", "prices=ACME"]),
        ("prices", ["prices"]),
    ],
)
def test_a_pattern_gets_what_it_matches_in_either_form(
    bus: shoal.Bus, pattern: str, wanted: list[str]
) -> None:
    with bus.subscribe(pattern) as subscription:
        for topic in ("prices/ACME", "prices/EMCA", "prices/ACME/bid", "prices", "prices=ACME"):
            bus.publish(topic, b"")
        assert topics(subscription) == wanted


def test_a_topic_in_tags_keeps_its_own_form(bus: shoal.Bus) -> None:
    with bus.subscribe("Courses/*/Session/>") as subscription:
        bus.publish("Courses=CPS616, Session=HPJava", b"")
        assert topics(subscription) == ["Courses=CPS616, Session=HPJava"]


def test_reserved_topics_are_left_out_of_everything_but_can_be_named(bus: shoal.Bus) -> None:
    with bus.subscribe(">") as everything, bus.subscribe("*/*") as levels, bus.subscribe("_reply/*") as named:
        bus.publish("_reply/7", b"")
        bus.publish("a/b", b"")
        assert [topics(each) for each in (everything, levels, named)] == [["a/b"], ["a/b"], ["_reply/7"]]


def test_every_subscription_gets_its_own_copy_and_each_message_once(bus: shoal.Bus, other: shoal.Bus) -> None:
    with bus.subscribe("a/*") as one, bus.subscribe("a/>") as two, other.subscribe("a/b") as three:
        bus.publish("a/b", b"")
        other.publish("a/b", b"")
        assert [len(topics(subscription)) for subscription in (one, two, three)] == [2, 2, 2]


def test_no_local_leaves_out_what_the_connection_itself_publishes(bus: shoal.Bus, other: shoal.Bus) -> None:
    with bus.subscribe("a", no_local=True) as subscription:
        bus.publish("a", b"own")
        other.publish("a", b"other")
        assert [message.body for message in subscription.receive_nowait()] == [b"other"]


def test_domains_of_other_names_hear_nothing(bus: shoal.Bus) -> None:
    with shoal.connect("inproc://elsewhere") as far, far.subscribe(">") as subscription:
        bus.publish("a", b"")
        assert topics(subscription) == []


def test_messages_arrive_in_the_order_of_publishing(bus: shoal.Bus, other: shoal.Bus) -> None:
    with other.subscribe("a") as subscription:
        for number in range(10_000):
            bus.publish("a", number)
        assert [next(subscription).body for _ in range(10_000)] == list(range(10_000))


def test_a_message_older_than_it_may_become_is_not_delivered(bus: shoal.Bus, other: shoal.Bus) -> None:
    subscription = bus.subscribe("a")
    for number, ttl_s in enumerate([0.02, None, 60.0]):
        other.publish("a", number, ttl_s=ttl_s)
    time.sleep(0.03)
    assert [message.body for message in (subscription.receive(1), subscription.receive(1)) if message] == [
        1,
        2,
    ]
    assert subscription.receive(0) is None


def test_a_closed_subscription_gives_what_it_has_and_ends(bus: shoal.Bus) -> None:
    subscription = bus.subscribe("a")
    bus.publish("a", 1)
    subscription.close()
    subscription.close()
    bus.publish("a", 2)
    assert [message.body for message in subscription] == [1]
    for receive in (lambda: subscription.receive(5), subscription.receive_nowait):
        with pytest.raises(ClosedError, match="subscription is closed"):
            receive()


def test_closing_the_bus_ends_an_iteration_in_another_thread(domain: str) -> None:
    bus = shoal.connect(domain)
    subscription = bus.subscribe("a")
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.extend(subscription))
    reader.start()
    bus.publish("a", 1)
    bus.close()
    reader.join(5)
    assert not reader.is_alive()
    assert [message.body for message in seen] == [1]


def test_a_subscription_that_nobody_keeps_takes_nothing_more(bus: shoal.Bus, other: shoal.Bus) -> None:
    for _ in range(2):
        subscription = bus.subscribe("a")
        other.publish("a", b"")
        for _ in subscription:
            break
    del subscription
    gc.collect()
    assert other.subscribers("a") == []


def test_waiting_for_subscribers_counts_every_connection_and_its_own(
    domain: str, bus: shoal.Bus, other: shoal.Bus
) -> None:
    assert bus.wait_for_subscribers("a/b", 1, timeout_s=0) is False
    with bus.subscribe("a/*"):
        assert bus.wait_for_subscribers("a/b", 1, timeout_s=0) is True
        assert bus.subscribers("a/b") == [bus.node]
        assert other.subscribers("a/b") == [bus.node]
        assert bus.wait_for_subscribers("a/b", 2, timeout_s=0) is False
        assert other.wait_for_subscribers("a/b", 1, timeout_s=5) is True
        timer = threading.Timer(0.05, lambda: keep.append(shoal.connect(domain).subscribe("a/b")))
        keep: list[Any] = []
        timer.start()
        assert other.wait_for_subscribers("a/b", 2, timeout_s=5) is True
        timer.join()


# --- callbacks ---


def test_a_callback_runs_on_a_thread_of_its_own(bus: shoal.Bus) -> None:
    done = threading.Event()
    threads = []

    def callback(message: shoal.Message) -> None:
        threads.append(threading.current_thread())
        if message.body == 2:
            done.set()

    bus.subscribe("a", callback)
    for number in range(3):
        bus.publish("a", number)
    assert done.wait(5)
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()


def test_callbacks_that_name_the_same_thread_share_it_and_take_turns(bus: shoal.Bus) -> None:
    done = threading.Semaphore(0)
    calls: list[tuple[str, int, threading.Thread]] = []

    def callback(message: shoal.Message) -> None:
        calls.append((message.topic, message.body, threading.current_thread()))
        done.release()

    for topic in ("a", "b"):
        bus.subscribe(topic, callback, thread="feed")
    bus.subscribe("c", callback, thread="other")
    for number in range(500):
        for topic in ("a", "b", "c"):
            bus.publish(topic, number)
    assert all(done.acquire(timeout=10) for _ in range(1500))
    for topic in ("a", "b", "c"):
        assert [number for name, number, _ in calls if name == topic] == list(range(500))
    assert {thread.name for name, _, thread in calls if name != "c"} == {"shoal-feed"}
    assert {thread.name for name, _, thread in calls if name == "c"} == {"shoal-other"}


def test_a_shared_thread_ends_with_its_connection_and_calls_nobody_any_more(domain: str) -> None:
    calls: list[Any] = []
    began = threading.Event()

    def slow(message: shoal.Message) -> None:
        began.set()
        calls.append(message)
        time.sleep(0.005)

    bus = shoal.connect(domain)
    bus.subscribe("a", slow, thread="feed")
    for number in range(1000):
        bus.publish("a", number)
    assert began.wait(5)
    bus.close()
    count = len(calls)
    assert count < 1000
    assert "shoal-feed" not in {thread.name for thread in threading.enumerate()}
    assert len(calls) == count


def test_a_shared_thread_ends_with_its_last_subscription_and_another_takes_its_name(
    bus: shoal.Bus,
) -> None:
    def names() -> set[str]:
        return {thread.name for thread in threading.enumerate()}

    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        called = threading.Event()
        one = bus.subscribe("a", lambda _, called=called: called.set(), thread="feed")
        two = bus.subscribe("b", print, thread="feed")
        one.close()
        three = bus.subscribe("a", lambda _, called=called: called.set(), thread="feed")
        bus.publish("a")
        assert called.wait(10)
        two.close()
        three.close()
        limit = time.monotonic() + 10
        while "shoal-feed" in names() and time.monotonic() < limit:
            time.sleep(0.001)
        assert "shoal-feed" not in names()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_run_returns_when_the_connection_is_closed(domain: str) -> None:
    bus = shoal.connect(domain)
    assert bus.run(timeout_s=0) is False
    bus.subscribe("stop", lambda _: bus.close())
    bus.publish("stop")
    assert bus.run(timeout_s=10) is True


def test_what_a_callback_raises_is_logged_and_the_next_message_follows(
    bus: shoal.Bus, caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()

    def callback(message: shoal.Message) -> None:
        if message.body == "bad":
            raise LookupError("no such price")
        done.set()

    with caplog.at_level(logging.ERROR, "shoal"):
        bus.subscribe("a", callback)
        bus.publish("a", "bad")
        bus.publish("a", "good")
        assert done.wait(5)
    (record,) = caplog.records
    assert "callback" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)


def test_a_callback_may_publish_subscribe_and_close(domain: str) -> None:
    done = threading.Event()
    bus = shoal.connect(domain)
    order: list[str] = []

    def second(message: shoal.Message) -> None:
        order.append(message.topic)
        bus.close()
        done.set()

    def first(message: shoal.Message) -> None:
        order.append(message.topic)
        bus.subscribe("second", second)
        bus.publish("second", b"")

    bus.subscribe("first", first)
    bus.publish("first", b"")
    assert done.wait(5)
    assert order == ["first", "second"]


def test_a_callback_that_fills_its_own_queue_is_told_and_never_waits_for_itself(domain: str) -> None:
    done = threading.Event()
    refusals: list[FullError] = []
    with shoal.connect(domain) as bus:

        def callback(message: shoal.Message) -> None:
            if message.body == 0:
                try:
                    for number in range(1, 101):
                        bus.publish("a", number)
                except FullError as refusal:
                    refusals.append(refusal)
                    done.set()

        bus.subscribe("a", callback, queue_bytes_max=500)
        bus.publish("a", 0)
        assert done.wait(10)
    assert "callback" in str(refusals[0])


def test_callbacks_that_feed_each_other_never_wait_for_ever(domain: str) -> None:
    calls = {"ping": 0, "pong": 0}
    refused = threading.Event()
    with shoal.connect(domain, slow_after_s=0.05) as bus:

        def callback(message: shoal.Message) -> None:
            calls[message.topic] += 1
            try:
                for _ in range(2):
                    bus.publish("pong" if message.topic == "ping" else "ping", bytes(100))
            except FullError:
                refused.set()

        for topic in calls:
            bus.subscribe(topic, callback, queue_bytes_max=500)
        bus.publish("ping", b"")
        assert refused.wait(20)


def test_a_closed_connection_calls_no_callback_any_more(domain: str) -> None:
    calls: list[Any] = []
    began = threading.Event()

    def slow(message: shoal.Message) -> None:
        began.set()
        calls.append(message)
        time.sleep(0.01)

    bus = shoal.connect(domain)
    bus.subscribe("a", slow)
    for number in range(1000):
        bus.publish("a", number)
    assert began.wait(5)
    bus.close()
    count = len(calls)
    time.sleep(0.1)
    assert len(calls) == count


def test_closing_waits_for_the_callback_under_way_which_may_still_publish(
    domain: str, other: shoal.Bus, caplog: pytest.LogCaptureFixture
) -> None:
    began = threading.Event()

    def callback(message: shoal.Message) -> None:
        began.set()
        time.sleep(0.1)
        bus.publish("answer", message.body)

    with other.subscribe("answer") as answers:
        bus = shoal.connect(domain)
        bus.subscribe("a", callback)
        for number in range(100):
            other.publish("a", number)
        assert began.wait(5)
        bus.close()
        assert [message.body for message in answers.receive_nowait()] == [0]
    assert caplog.records == []


# --- more than anybody reads ---


def test_publishing_waits_until_the_reader_has_room(bus: shoal.Bus) -> None:
    subscription = bus.subscribe("a", queue_bytes_max=10_000)
    published: list[int] = []

    def publish() -> None:
        for number in range(100):
            bus.publish("a", bytes(1000))
            published.append(number)

    publisher = threading.Thread(target=publish)
    publisher.start()
    publisher.join(0.2)
    assert publisher.is_alive()
    assert len(published) <= 12
    assert sum(1 for _ in range(100) if subscription.receive(5)) == 100
    publisher.join(5)
    assert not publisher.is_alive()


def test_a_publisher_that_waits_may_be_given_up(bus: shoal.Bus) -> None:
    bus.subscribe("a", queue_bytes_max=1000)
    keep = bus.subscribe("a", queue_bytes_max=1000)
    began = time.monotonic()
    for _ in range(2):
        bus.publish("a", bytes(500), timeout_s=0.1)
    with pytest.raises(FullError):
        bus.publish("a", bytes(500), timeout_s=0.1)
    assert time.monotonic() - began < 2
    keep.close()


@pytest.mark.parametrize("policy", ["drop", "error"])
def test_a_connection_that_does_not_wait_keeps_its_readers_bound(domain: str, policy: Any) -> None:
    with shoal.connect(domain, when_full=policy) as bus:
        subscription = bus.subscribe("a", queue_bytes_max=10_000)
        refused = 0
        for _ in range(100):
            try:
                refused += not bus.publish("a", bytes(1000))
            except FullError:
                refused += 1
        arrived = subscription.receive_nowait()
        assert len(arrived) <= 12
        assert len(arrived) + refused == 100


@pytest.mark.parametrize(("policy", "kept"), [("drop_new", [0, 1]), ("drop_old", [8, 9])])
def test_a_subscription_may_drop_instead(bus: shoal.Bus, policy: Any, kept: list[int]) -> None:
    with bus.subscribe("a", queue_bytes_max=2 * 1060, queue_full=policy) as subscription:
        for number in range(10):
            bus.publish("a", bytes([number]) * 1000)
        assert [message.body[0] for message in subscription.receive_nowait()] == kept
        assert subscription.dropped == 8


def test_an_unknown_policy_is_refused_with_those_there_are(bus: shoal.Bus) -> None:
    with pytest.raises(ConfigError, match=r"block, drop_new or drop_old.*grow"):
        bus.subscribe("a", queue_full="grow")  # type: ignore[arg-type]


# --- requests ---


def test_a_request_is_answered(bus: shoal.Bus, other: shoal.Bus) -> None:
    other.subscribe("double", lambda request: other.reply(request, request.body * 2))
    assert bus.request("double", 21, timeout_s=5).body == 42


def test_requests_of_many_threads_get_their_own_answers(bus: shoal.Bus, other: shoal.Bus) -> None:
    other.subscribe("double", lambda request: other.reply(request, request.body * 2))
    wrong: list[int] = []

    def ask(number: int) -> None:
        for turn in range(50):
            if bus.request("double", number + turn, timeout_s=10).body != 2 * (number + turn):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert wrong == []


def test_a_request_that_nobody_answers_names_its_topic_and_time(bus: shoal.Bus) -> None:
    with bus.subscribe("deaf"), pytest.raises(NoReplyError, match=r"'deaf'.*0\.05 s"):
        bus.request("deaf", timeout_s=0.05)


def test_only_a_request_can_be_replied_to(bus: shoal.Bus) -> None:
    with bus.subscribe("a") as subscription:
        bus.publish("a", b"")
        with pytest.raises(ValueError, match="request"):
            bus.reply(next(subscription), b"")


def test_a_request_inside_a_callback_is_answered(bus: shoal.Bus, other: shoal.Bus) -> None:
    answers: list[Any] = []
    done = threading.Event()
    other.subscribe("double", lambda request: other.reply(request, request.body * 2))

    def callback(message: shoal.Message) -> None:
        answers.append(bus.request("double", message.body, timeout_s=5).body)
        done.set()

    bus.subscribe("a", callback)
    bus.publish("a", 4)
    assert done.wait(10)
    assert answers == [8]


def test_a_connection_that_nobody_keeps_ends_its_callbacks_and_warns() -> None:
    def connect_and_forget() -> None:
        bus = shoal.connect("inproc://forgotten")
        bus.subscribe("a", lambda message: None)
        del bus
        gc.collect()

    before = set(threading.enumerate())
    with pytest.warns(ResourceWarning, match="SHOAL-2115 .*Bus.* with callbacks was not closed"):
        connect_and_forget()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_a_connection_that_was_closed_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    shoal.connect("inproc://closed").close()
    gc.collect()
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]
