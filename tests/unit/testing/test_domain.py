"""A simulated domain does what it is told, and the same each time."""

import pytest

from shoal.testing import Domain, Link, numbered
from shoal.testing.domain import paused


def play(seed: int, **link: float) -> Domain:
    domain = Domain(seed=seed, link=Link(delay_s=0.001, jitter_s=0.002, **link), trace=True)
    nodes = domain.add_nodes(3)
    for node in nodes:
        node.subscribe("prices/>")
    for step in range(10):
        nodes[step % 3].publish("prices/ACME", *numbered(5, first=5 * step))
        domain.run_for(0.1)
    nodes[2].crash()
    domain.run_for(5.0)
    return domain


def test_one_seed_gives_the_same_run_byte_for_byte_and_another_another():
    first, again, other = play(1, loss=0.1), play(1, loss=0.1), play(2, loss=0.1)
    assert first.trace == again.trace
    assert len(first.trace) > 100
    assert first.digest == again.digest != other.digest
    assert [life.happenings for life in first.history().lives] == [
        life.happenings for life in again.history().lives
    ]


def test_nodes_meet_and_messages_arrive_at_home_and_away():
    domain = Domain(seed=3)
    one, two = domain.add_nodes(2)
    here, there = one.subscribe("prices/*"), two.subscribe("prices/*")
    assert domain.run_until_true(domain.everybody_knows_everybody, within_s=5.0)
    bodies = numbered(20)
    one.publish("prices/ACME", *bodies)
    flush = one.flush()
    assert flush is not None
    assert flush.silent == []
    assert here.bodies == there.bodies == bodies
    assert one.interested("prices/ACME") == [two.life.node]
    assert one.interested("news") == []


def test_a_node_that_stands_still_reads_nothing_and_goes_on():
    domain = Domain(seed=3)
    one, two = domain.add_nodes(2)
    subscription = two.subscribe("a")
    domain.run_for(1.0)
    with paused(two, socket_bytes=1 << 20):
        one.publish("a", *numbered(5))
        domain.run_for(0.5)
        assert subscription.bodies == []
    domain.run_for(0.5)
    assert subscription.bodies == numbered(5)
    assert two.life.pauses == [(1.0, 1.5)]


def test_a_crashed_node_is_missed_and_one_that_starts_again_is_another():
    domain = Domain(seed=3)
    one, two = domain.add_nodes(2)
    assert domain.run_until_true(domain.everybody_knows_everybody, within_s=5.0)
    before = two.life
    two.crash()
    assert domain.run_until_true(lambda: one.members == [], within_s=10.0)
    two.restart()
    assert domain.run_until_true(domain.everybody_knows_everybody, within_s=5.0)
    assert (two.life.publisher, two.life.node) != (before.publisher, before.node)
    assert [life.end for life in two.lives()] == ["crashed", "running"]


def test_networks_are_apart_and_a_node_may_be_on_two():
    domain = Domain(seed=3)
    left, right = domain.add_node(segments=(1,)), domain.add_node(segments=(2,))
    both = domain.add_node(segments=(1, 2))
    domain.run_for(3.0)
    assert left.members == right.members == [both.life.node]
    assert sorted(both.members) == sorted([left.life.node, right.life.node])


def test_what_cannot_be_is_named():
    with pytest.raises(ValueError, match="seed must be from 0 to"):
        Domain(seed=-1)
    domain = Domain(seed=1)
    node = domain.add_node()
    with pytest.raises(ValueError, match="selector and accepts say the same"):
        node.subscribe("a", selector="JMSPriority > 5")
    with pytest.raises(ValueError, match="when_full must be block, drop or error"):
        node.publish("a", b"", when_full="never")  # type: ignore[arg-type]
