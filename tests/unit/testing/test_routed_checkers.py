"""The checkers of routers accept a good history, and refuse silent and needless losses."""

from dataclasses import replace

import pytest

from shoal.testing.domain_checkers import DomainCheckError
from shoal.testing.domain_history import (
    DomainHistory,
    Flush,
    Happening,
    Life,
    MessageKey,
    Published,
    Reading,
    SubscriptionRecord,
)
from shoal.testing.domain_topology import Topology
from shoal.testing.routed_checkers import (
    CONFIRMED_S,
    HELD_BYTES,
    REPLAY_S,
    check_routed,
    every_number_accounted,
    no_needless_loss,
)
from shoal.testing.search import SCENARIOS

PUBLISHER, ROUTER, READER = range(1, 4)
COUNT = 6
BEGAN_S = 20.0


def good_history() -> DomainHistory:
    """A router between two LANs; six messages come through, to the reader and to the router's own program."""
    lives = [
        Life(name=name, node=10 + name, publisher=100 + name, began_s=0.0, router=name == ROUTER)
        for name in (PUBLISHER, ROUTER, READER)
    ]
    publisher, router, reader = lives
    topology = Topology()
    for name, segments in ((PUBLISHER, (0,)), (ROUTER, (0, 1)), (READER, (1,))):
        topology.add(name, domain=7, segments=segments, router=name == ROUTER)
    topology.note(0.0)
    for number in range(1, COUNT + 1):
        key = MessageKey(publisher.publisher, 2, number)
        publisher.published.append(Published(BEGAN_S + number, 0.0, "t", 4, key, (12,), b"%d" % number))
    for life in (router, reader):
        life.subscriptions[1] = SubscriptionRecord(number=1, pattern="t", began_s=0.5)
        life.subscriptions[1].readings = [
            Reading(message.at_s + 0.1, message.topic, message.key, 1000, message.body)
            for message in publisher.published
        ]
    return DomainHistory(seed=7, repeat="the command", lives=lives, topology=topology, strict=True)


def miss(history: DomainHistory, *numbers: int, name: int = READER) -> None:
    record = history.lives[name - 1].subscriptions[1]
    record.readings = [reading for reading in record.readings if reading.key.number not in numbers]


def lose(history: DomainHistory, first: int, last: int, at_s: float = 40.0) -> None:
    details = {"publisher": 100 + PUBLISHER, "chain": 2, "first": first, "last": last}
    history.lives[READER - 1].happenings.append(Happening(at_s, "lost", 12, details))


def topology_of(history: DomainHistory) -> Topology:
    assert history.topology is not None
    return history.topology


# --- every_number_accounted ---


def test_a_good_history_passes():
    check_routed(good_history())


@pytest.mark.parametrize(
    ("numbers", "where"),
    [
        ((1,), "at the head"),
        ((3, 4), "in the middle"),
        ((5, 6), "at the tail"),
        (tuple(range(1, COUNT + 1)), "of a chain it read nothing of"),
    ],
)
def test_what_was_neither_read_nor_lost_is_named_with_its_place(numbers, where):
    history = good_history()
    miss(history, *numbers)
    told = (
        f"seed 7: every_number_accounted: node 3 .* {len(numbers)} of node 1 .*{where}.*-2-{numbers[0]} to "
    )
    with pytest.raises(DomainCheckError, match=told):
        every_number_accounted(history)
    lose(history, numbers[0], numbers[-1])
    every_number_accounted(history)


def test_a_loss_of_other_numbers_excuses_nothing():
    history = good_history()
    miss(history, 5, 6)
    lose(history, 5, 5)
    with pytest.raises(DomainCheckError, match="-2-6 to"):
        every_number_accounted(history)


def test_before_its_subscription_is_confirmed_a_reader_may_miss_messages():
    history = good_history()
    record = history.lives[READER - 1].subscriptions[1]
    record.began_s = BEGAN_S + 2.5 - CONFIRMED_S
    miss(history, 1, 2)
    every_number_accounted(history)
    miss(history, 3)
    with pytest.raises(DomainCheckError, match="-2-3 to"):
        every_number_accounted(history)


def test_the_first_message_that_came_confirms_a_subscription():
    history = good_history()
    history.lives[READER - 1].subscriptions[1].began_s = BEGAN_S
    miss(history, 1, 3)
    with pytest.raises(DomainCheckError, match="-2-3 to"):
        every_number_accounted(history)


def test_a_publisher_that_comes_later_finds_the_subscription_at_its_routers():
    history = good_history()
    history.lives[PUBLISHER - 1].began_s = BEGAN_S
    miss(history, 1, 2)
    with pytest.raises(DomainCheckError, match="-2-1 to"):
        every_number_accounted(history)
    record = history.lives[READER - 1].subscriptions[1]
    record.began_s = BEGAN_S - CONFIRMED_S + 0.1
    every_number_accounted(history)


def test_a_break_before_the_subscription_is_confirmed_begins_it_anew_and_one_after_it_excuses_nothing():
    history = good_history()
    miss(history, 1)
    topology = topology_of(history)
    topology.set_up(ROUTER, False)
    topology.note(BEGAN_S + 0.5)
    with pytest.raises(DomainCheckError):
        every_number_accounted(history)
    early = replace(good_history(), topology=Topology())
    miss(early, 1)
    every_number_accounted(early)


def test_nobody_is_told_of_what_no_running_node_knows():
    history = good_history()
    publisher = history.lives[PUBLISHER - 1]
    publisher.end, publisher.ended_s = "crashed", BEGAN_S + 7
    miss(history, 5, 6)
    miss(history, 6, name=ROUTER)
    with pytest.raises(DomainCheckError, match=r"1 of node 1 .*-2-5 to"):
        every_number_accounted(history)
    miss(history, 5, 6, name=ROUTER)
    every_number_accounted(history)
    # A flush that confirmed it says that everybody has it.
    publisher.flushes.append(Flush(1, BEGAN_S + 6.5, BEGAN_S + 6.6, ()))
    with pytest.raises(DomainCheckError):
        every_number_accounted(history)
    publisher.flushes[0] = publisher.flushes[0]._replace(silent=(12,))
    every_number_accounted(history)


def test_a_reader_that_ended_is_told_nothing():
    history = good_history()
    miss(history, 6)
    reader = history.lives[READER - 1]
    reader.end, reader.ended_s = "crashed", BEGAN_S + 5.5
    every_number_accounted(history)


# --- no_needless_loss ---


def test_a_loss_is_needless_while_the_publisher_holds_the_message_and_has_a_path():
    history = good_history()
    miss(history, 3)
    lose(history, 3, 3)
    told = r"seed 7: no_needless_loss: node 3 .*lost ID:.*-2-3.* and node 1 .*held it"
    with pytest.raises(DomainCheckError, match=told):
        check_routed(history)


def test_a_loss_is_needless_while_a_router_holds_the_message_though_its_publisher_is_gone():
    history = good_history()
    miss(history, 3)
    lose(history, 3, 3)
    publisher = history.lives[PUBLISHER - 1]
    publisher.end, publisher.ended_s = "crashed", BEGAN_S + 7
    with pytest.raises(DomainCheckError, match=r"and node 2 .*held it"):
        no_needless_loss(history)
    miss(history, 3, name=ROUTER)
    no_needless_loss(history)


def test_a_loss_is_right_if_there_was_no_path_for_long_enough():
    history = good_history()
    miss(history, 3)
    lose(history, 3, 3)
    topology = topology_of(history)
    topology.set_up(ROUTER, False)
    topology.note(30.0)
    topology.set_up(ROUTER, True)
    topology.note(40.0 - REPLAY_S + 0.1)
    no_needless_loss(history)


def test_a_loss_is_right_once_the_message_is_older_than_what_is_held():
    history = good_history()
    miss(history, 3)
    lose(history, 3, 3, at_s=60.0)
    no_needless_loss(history)


def test_a_loss_is_right_if_more_was_published_since_than_is_held():
    history = good_history()
    miss(history, 3)
    lose(history, 3, 3)
    published = history.lives[PUBLISHER - 1].published
    published[3] = published[3]._replace(body=bytes(HELD_BYTES + 1))
    no_needless_loss(history)


def test_a_loss_of_what_nobody_wanted_is_not_needless():
    history = good_history()
    history.lives[READER - 1].subscriptions[1].pattern = "elsewhere"
    miss(history, *range(1, COUNT + 1))
    lose(history, 3, 3)
    no_needless_loss(history)


# --- in whole runs ---


def test_a_history_that_is_not_strict_is_asked_for_less():
    history = replace(good_history(), strict=False)
    miss(history, 6)
    check_routed(history)


def run_of_two_lans() -> DomainHistory:
    history = SCENARIOS["two_lans_and_a_router"](1).history()
    every_number_accounted(history)
    no_needless_loss(history)
    return history


def test_a_run_whose_reader_lacks_the_last_message_is_found():
    history = run_of_two_lans()
    reader = history.lives[-1]
    del reader.subscriptions[1].readings[-1]
    with pytest.raises(DomainCheckError, match=r"1 of node .* at the tail"):
        every_number_accounted(history)


def test_a_run_in_which_a_loss_is_reported_for_no_reason_is_found():
    history = run_of_two_lans()
    reader = history.lives[-1]
    key = reader.subscriptions[1].readings.pop().key
    details = {"publisher": key.publisher, "chain": key.chain, "first": key.number, "last": key.number}
    last_s = max(life.published[-1].at_s for life in history.lives if life.published)
    reader.happenings.append(Happening(last_s + 10.0, "lost", 1, details))
    every_number_accounted(history)
    with pytest.raises(DomainCheckError, match="no_needless_loss"):
        no_needless_loss(history)
