"""The figures of a publisher, as iBus printed them."""

import pytest

import shoal
from shoal.bus.statistics import of_links, statistics_of

COUNTERS = {
    "segments_sent": 29_008,
    "repairs_requested": 227,
    "epochs_acknowledged": 4,
    "epoch_ack_ns": 1_016_000_000,
    "pacing_ns": 53_000_000,
    "send_gap_ns": 47_829_000,
    "send_gap_datagrams": 100,
}


def test_printed_it_has_the_lines_of_ibus() -> None:
    assert str(statistics_of(COUNTERS, 29_008, 0.000_302_57)).splitlines() == [
        "messages sent: 29008",
        "retransmit req: 227 (0.7825%)",
        "epoch ack ave ms: 254",
        "current send delay: 0.30257",
        "ms slept: 53",
        "average elapsed btwn sends: 0.47829",
    ]


def test_before_anything_was_sent_there_is_nothing_to_divide() -> None:
    fresh = shoal.Statistics()
    assert (fresh.retransmit_share, fresh.epoch_ack_s, fresh.gap_s) == (0.0, None, None)
    assert "epoch ack ave ms: -" in str(fresh)


def test_between_two_looks_only_what_happened_meanwhile_counts() -> None:
    before = statistics_of({name: count // 2 for name, count in COUNTERS.items()}, 10, 0.5)
    between = statistics_of(COUNTERS, 25, 0.25).since(before)
    assert (between.messages_sent, between.datagrams_sent, between.send_delay_s) == (15, 14_504, 0.25)
    assert between.retransmit_requests == 114
    assert between.epoch_ack_s == pytest.approx(0.254)


def test_of_several_links_messages_add_up_and_the_longest_delay_counts() -> None:
    links = [{"messages_sent": 3, "send_delay_s": 0.1}, {"messages_sent": 4, "send_delay_s": 0.2}]
    found = of_links(COUNTERS, links)
    assert (found.messages_sent, found.send_delay_s) == (7, 0.2)


def test_a_connection_without_multicast_has_none() -> None:
    with shoal.connect("inproc://statistics") as bus:
        bus.publish("a", 1)
        assert bus.statistics() == shoal.Statistics()
