"""A checker that cannot fail proves nothing: each is fed a history with the one thing broken it looks for."""

from dataclasses import replace

import pytest

from shoal.testing import CheckError, Delivery, Event, History, NodeRecord, StreamKey, check_all, numbered
from shoal.testing.checkers import (
    Checker,
    complete,
    converges,
    memory_bounded,
    nacks_bounded,
    never_idle,
    no_duplicate,
    no_gap,
    order_kept,
)

KEY = StreamKey(1, 1, 0)
BODIES = numbered(6, size=10)
RECEIVER = 2


def history(*numbers: int, **record: object) -> History:
    """A run in which the receiver got these of six messages, one every tenth of a second."""
    deliveries = tuple(Delivery(0.1 * at, KEY, BODIES[number]) for at, number in enumerate(numbers))
    node = NodeRecord(deliveries=deliveries, receive_bytes_peak=10, receive_bytes_max=10)
    return History(
        seed=77,
        repeat="make it so",
        published={KEY: BODIES},
        nodes={1: NodeRecord(), RECEIVER: replace(node, **record)},
    )


def gap_event() -> Event:
    fields = {"sender": 1, "instance": 1, "stream": 0, "first_segment": 2, "segments": 2}
    return Event(0.2, "gap", fields)


def test_a_run_without_fault_passes_everything():
    whole = history(0, 1, 2, 3, 4, 5)
    bounded = nacks_bounded(per_repair=1.0)
    check_all(
        whole, complete(RECEIVER), converges(RECEIVER, calm_at_s=0.0, within_s=1.0), bounded, never_idle()
    )


@pytest.mark.parametrize(
    ("broken", "checker", "says"),
    [
        (history(0, 1, 3), no_gap, "missed messages 2 to 2"),
        (history(0, 1, unreadable=1), no_gap, "hold no message"),
        (history(0, 1, 1, 2), no_duplicate, "twice"),
        (history(0, 2, 1, 3), order_kept, "message 1 of .* after message 2"),
        (history(0, 1, 2, 3, 4), complete(RECEIVER), "lacks 1 of 6 messages"),
        (history(), complete(RECEIVER), "lacks 6 of 6"),
        (
            history(0, 1, 2, 3, 4, 5),
            converges(RECEIVER, calm_at_s=0.1, within_s=0.3),
            "0.400 s after loss ended",
        ),
        (history(0, receive_bytes_peak=11), memory_bounded, "held 11 bytes, may hold 10"),
        (history(0, stats={"nacks_sent": 30}), nacks_bounded(per_repair=1.0), "30 NACKs for 0 repairs"),
        (
            history(0, rate_bytes_per_s=100.0, busy_s=10.0, busy_bytes=900),
            never_idle(share=0.95),
            "used 90.0% of its rate",
        ),
    ],
)
def test_a_broken_run_is_caught(broken: History, checker: Checker, says: str):
    with pytest.raises(CheckError, match=says) as caught:
        checker(broken)
    assert "seed 77" in str(caught.value)
    assert "repeat with: make it so" in str(caught.value)


def test_a_message_nobody_published_is_caught():
    run = history(0, 1)
    forged = replace(
        run.nodes[RECEIVER], deliveries=(*run.nodes[RECEIVER].deliveries, Delivery(1.0, KEY, b"forged"))
    )
    with pytest.raises(CheckError, match="never carried"):
        order_kept(replace(run, nodes={RECEIVER: forged}))


def test_a_gap_that_was_told_is_none_and_excuses_only_one():
    no_gap(history(0, 1, 4, 5, events=(gap_event(),)))
    with pytest.raises(CheckError, match="missed messages 3 to 4"):
        no_gap(history(0, 2, 5, events=(gap_event(),)))


def test_a_late_joiner_has_no_gap_before_its_first_message():
    no_gap(history(3, 4, 5))


def test_check_all_runs_every_checker():
    for broken in (history(0, 2), history(0, 0), history(1, 0), history(0, receive_bytes_peak=99)):
        with pytest.raises(CheckError):
            check_all(broken)


def test_bodies_that_do_not_differ_cannot_be_checked():
    same = replace(history(0), published={KEY: [b"same", b"same"]})
    with pytest.raises(ValueError, match="must all differ"):
        order_kept(same)
