"""Each checker of whole nodes accepts a good history and refuses one that breaks its promise."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from shoal.testing.domain_checkers import (
    DomainChecker,
    DomainCheckError,
    accounted,
    check_domain,
    flushes_hold,
    no_stall,
    nothing_lost,
    nothing_silent,
    once_and_in_order,
    one_identity,
    only_what_was_asked,
    told_exactly,
)
from shoal.testing.domain_history import (
    DomainHistory,
    Flush,
    Happening,
    Life,
    MessageKey,
    Published,
    Reading,
    SubscriptionRecord,
    matches,
)

PUBLISHER, READER = 0xA, 0xB
COUNT = 6


def good_history() -> DomainHistory:
    """One node publishes six messages, which another one and a subscription of its own read."""
    publisher = Life(name=1, node=11, publisher=PUBLISHER, began_s=0.0)
    reader = Life(name=2, node=22, publisher=READER, began_s=0.0)
    for number in range(1, COUNT + 1):
        key = MessageKey(PUBLISHER, 2, number)
        at_s, body = 1.0 + number, f"body {number}".encode()
        publisher.published.append(Published(at_s, 0.0, "prices/ACME", 4, key, (22,), body))
    for life in (publisher, reader):
        record = SubscriptionRecord(number=1, pattern="prices/*", began_s=0.5)
        record.readings = [
            Reading(message.at_s + 0.1, message.topic, message.key, 1000 + message.key.number, message.body)
            for message in publisher.published
        ]
        life.subscriptions[1] = record
    for one, other in ((publisher, reader), (reader, publisher)):
        one.happenings.append(Happening(0.2, "joined", other.node, {}))
    publisher.flushes.append(Flush(1, 8.0, 8.2, ()))
    return DomainHistory(seed=7, repeat="the command", lives=[publisher, reader])


def readings(history: DomainHistory) -> list[Reading]:
    return history.lives[1].subscriptions[1].readings


def lose(history: DomainHistory, first: int, last: int) -> None:
    details = {"publisher": PUBLISHER, "chain": 2, "first": first, "last": last}
    history.lives[1].happenings.append(Happening(9.0, "lost", 11, details))


def read_twice(history: DomainHistory) -> None:
    readings(history).append(readings(history)[-1])


def swap_two(history: DomainHistory) -> None:
    read = readings(history)
    read[2], read[3] = read[3], read[2]


def read_what_nobody_published(history: DomainHistory) -> None:
    read = readings(history)
    read.append(read[-1]._replace(key=MessageKey(PUBLISHER, 2, 99)))


def read_another_body(history: DomainHistory) -> None:
    readings(history)[2] = readings(history)[2]._replace(body=b"another")


def read_another_topic(history: DomainHistory) -> None:
    history.lives[1].subscriptions[1].pattern = "news"


def read_what_the_selector_refuses(history: DomainHistory) -> None:
    history.lives[1].subscriptions[1].accepts = lambda message: message.priority > 5


def read_after_the_end(history: DomainHistory) -> None:
    history.lives[1].subscriptions[1].ended_s = 3.0


def read_its_own_despite_no_local(history: DomainHistory) -> None:
    history.lives[0].subscriptions[1].no_local = True


def read_another_timestamp(history: DomainHistory) -> None:
    readings(history)[0] = readings(history)[0]._replace(timestamp_us=1)


def give_a_number_twice(history: DomainHistory) -> None:
    history.lives[0].published.append(history.lives[0].published[0])


def miss_one(history: DomainHistory) -> None:
    del readings(history)[2]


def miss_the_last(history: DomainHistory) -> None:
    del readings(history)[-1]


def miss_one_at_home(history: DomainHistory) -> None:
    del history.lives[0].subscriptions[1].readings[2]


def read_too_late_for_the_flush(history: DomainHistory) -> None:
    readings(history)[-1] = readings(history)[-1]._replace(at_s=8.5)


def lose_what_came(history: DomainHistory) -> None:
    lose(history, COUNT, COUNT + 3)


def lose_twice(history: DomainHistory) -> None:
    lose(history, COUNT + 1, COUNT + 3)
    lose(history, COUNT + 3, COUNT + 9)


def wait_long(history: DomainHistory) -> None:
    published = history.lives[0].published
    published[0] = published[0]._replace(waited_s=2.0)


BROKEN: list[tuple[DomainChecker, Callable[[DomainHistory], None]]] = [
    (once_and_in_order, read_twice),
    (once_and_in_order, swap_two),
    (only_what_was_asked, read_what_nobody_published),
    (only_what_was_asked, read_another_body),
    (only_what_was_asked, read_another_topic),
    (only_what_was_asked, read_what_the_selector_refuses),
    (only_what_was_asked, read_after_the_end),
    (only_what_was_asked, read_its_own_despite_no_local),
    (one_identity, read_another_timestamp),
    (one_identity, give_a_number_twice),
    (accounted, miss_one),
    (accounted, miss_the_last),
    (accounted, miss_one_at_home),
    (flushes_hold, miss_the_last),
    (flushes_hold, read_too_late_for_the_flush),
    (no_stall(1.0), wait_long),
    (told_exactly, lose_what_came),
    (told_exactly, lose_twice),
    (nothing_silent, miss_one),
    (nothing_lost, lambda history: lose(history, 1, 1)),
]


@pytest.mark.parametrize(
    "checker", dict.fromkeys(checker for checker, _ in BROKEN), ids=lambda each: each.__name__
)
def test_a_good_history_passes(checker):
    checker(good_history())


@pytest.mark.parametrize(("checker", "break_it"), BROKEN, ids=lambda each: each.__name__)
def test_a_broken_history_is_refused_with_its_seed(checker, break_it):
    history = good_history()
    break_it(history)
    with pytest.raises(DomainCheckError, match="seed 7: ") as raised:
        checker(history)
    assert "repeat with: the command" in str(raised.value)


def test_everything_is_checked_at_once():
    check_domain(good_history(), accounted)
    history = good_history()
    swap_two(history)
    with pytest.raises(DomainCheckError, match="once_and_in_order"):
        check_domain(history)


def test_what_was_told_as_lost_is_accounted_for_and_nothing_beside_it():
    history = good_history()
    del readings(history)[2:4]
    lose(history, 3, 3)
    with pytest.raises(DomainCheckError, match=r"neither read nor lost 1 .*-2-4"):
        accounted(history)
    lose(history, 4, 5)
    accounted(history)


def test_a_loss_of_another_publisher_or_chain_does_not_count():
    for wrong in ({"publisher": 1}, {"chain": 3}):
        history = good_history()
        miss_one(history)
        details = {"publisher": PUBLISHER, "chain": 2, "first": 1, "last": 9, **wrong}
        history.lives[1].happenings.append(Happening(9.0, "lost", 11, details))
        with pytest.raises(DomainCheckError):
            accounted(history)


def test_nobody_knows_what_a_publisher_that_crashed_said_last():
    history = good_history()
    history.lives[0].end, history.lives[0].ended_s = "crashed", 8.5
    miss_the_last(history)
    accounted(history)
    miss_one(history)
    with pytest.raises(DomainCheckError):
        accounted(history)


def test_who_said_goodbye_is_accounted_for_to_the_end():
    history = good_history()
    history.lives[0].end, history.lives[0].ended_s = "left", 8.5
    miss_the_last(history)
    accounted(history)
    history.lives[1].happenings.append(Happening(8.6, "gone", 11, {"failed": False}))
    with pytest.raises(DomainCheckError):
        accounted(history)
    accounted(replace(history, lossless=False))
    history.lives[1].pauses.append((7.0, 9.0))
    accounted(history)


def test_before_its_publisher_knew_it_a_subscriber_may_miss_messages():
    history = good_history()
    published = history.lives[0].published
    published[0] = published[0]._replace(wanted_by=())
    del readings(history)[0]
    accounted(history)


def test_before_its_publisher_had_heard_of_it_a_subscriber_may_miss_messages():
    history = good_history()
    history.lives[0].happenings[0] = Happening(2.5, "joined", 22, {})
    del readings(history)[0]
    accounted(history)
    del readings(history)[1]
    with pytest.raises(DomainCheckError):
        accounted(history)


def test_a_subscriber_that_heard_of_its_publisher_late_misses_nothing_all_the_same():
    history = good_history()
    history.lives[1].happenings[0] = Happening(7.5, "joined", 11, {})
    del readings(history)[0]
    with pytest.raises(DomainCheckError):
        accounted(history)


def test_a_node_that_started_over_under_its_old_id_is_another_one():
    history = good_history()
    history.lives[1].began_s = 2.5
    history.lives[0].happenings.append(Happening(3.5, "joined", 22, {}))
    history.lives[1].happenings[0] = Happening(2.6, "joined", 11, {})
    del readings(history)[:2]
    accounted(history)
    del readings(history)[0]
    with pytest.raises(DomainCheckError):
        accounted(history)


def test_a_node_that_started_over_counts_when_its_publisher_heard_what_it_wants_now():
    history = good_history()
    before = replace(history.lives[1], publisher=READER + 1, began_s=-5.0, end="crashed", ended_s=0.0)
    history.lives.append(replace(before, subscriptions={}, happenings=[], published=[]))
    history.lives[0].happenings.append(Happening(2.5, "subscriptions", 22, {"added": ["prices/*"]}))
    del readings(history)[0]
    accounted(history)
    del readings(history)[2]
    with pytest.raises(DomainCheckError):
        accounted(history)


def test_a_flush_does_not_wait_for_a_member_that_failed_meanwhile():
    history = good_history()
    del readings(history)[3]
    history.lives[0].happenings.append(Happening(8.1, "gone", 22, {"failed": True}))
    flushes_hold(history)


def test_what_was_read_before_the_publisher_knew_of_the_subscription_promises_nothing():
    history = good_history()
    history.lives[0].began_s = -10.0
    published = history.lives[0].published
    published[:] = [message._replace(wanted_by=()) for message in published[:5]] + published[5:]
    del readings(history)[3]
    accounted(history)
    del readings(history)[-1]
    with pytest.raises(DomainCheckError):
        accounted(history)


def test_a_subscription_counts_once_its_publisher_heard_of_it_though_it_knew_of_another():
    history = good_history()
    published = history.lives[0].published
    published[2] = published[2]._replace(wanted_by=())
    del readings(history)[2]
    accounted(history)
    history.lives[0].happenings.append(Happening(0.6, "subscriptions", 22, {"added": ["prices/*"]}))
    with pytest.raises(DomainCheckError):
        accounted(history)


def test_a_flush_does_not_wait_until_a_queue_is_read_that_holds_back_its_node():
    history = good_history()
    del readings(history)[3]
    with pytest.raises(DomainCheckError):
        flushes_hold(history)
    history.lives[1].subscriptions[2] = SubscriptionRecord(
        number=2, pattern="news", began_s=0.5, always_read=False
    )
    flushes_hold(history)


def test_a_flush_that_names_nobody_though_somebody_lost_something_does_not_hold():
    history = good_history()
    miss_the_last(history)
    lose(history, COUNT, COUNT)
    with pytest.raises(DomainCheckError, match="had not read"):
        flushes_hold(history)
    flushes = history.lives[0].flushes
    flushes[0] = flushes[0]._replace(losers=(22,))
    flushes.append(Flush(2, 9.0, 9.1, ()))
    flushes_hold(history)


def test_memory_beyond_a_bound_is_named():
    history = good_history()
    history.lives[1].state = {
        "publisher": READER,
        "node": 22,
        "backlog": 0,
        "waits_since_s": None,
        "has_left": False,
        "unreadable": 0,
        "receive_bytes_peak": 101,
        "receive_bytes_max": 100,
        "queue_bytes_over_peak": 0,
        "waiting_bytes_peak": 0,
        "held_bytes_peak": 0,
        "assembly_bytes_max": 100,
        "tcp_links": 0,
        "lane_bytes_max": 10,
        "message_bytes_max": 10,
        "lanes": 5,
    }
    with pytest.raises(DomainCheckError, match="receive memory took 101 bytes, beyond 100"):
        check_domain(history)


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("a/b", "a/b", True),
        ("a/*", "a/b", True),
        ("a/*", "a/b/c", False),
        ("a/>", "a/b/c", True),
        ("a/>", "a", False),
        (">", "a/b", True),
        (">", "_reply/1", False),
        ("_reply/>", "_reply/1", True),
        ("*/b", "_a/b", False),
    ],
)
def test_the_plain_twin_of_matching(pattern, topic, fits):
    assert matches(pattern, topic) is fits
