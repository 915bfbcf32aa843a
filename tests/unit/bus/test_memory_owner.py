"""Who has the queues in memory."""

import random
from typing import Any

import pytest

import shoal
from shoal.bus.memory_owner import SILENT_S, STAND_S, Election


def elect(members: dict[int, Election], now: float, dice: random.Random, lost: float) -> list[int]:
    """Let members talk until somebody is the owner; those who are, and the time."""
    owners: list[int] = []
    until = now + 10 * STAND_S
    while now < until and not owners:
        for publisher, member in members.items():
            match member.poll(now):
                case "own":
                    owners.append(publisher)
                case "say":
                    for other in members.values():
                        if dice.random() >= lost:
                            other.on_stand(now, member.said())
        now += 0.05
    return owners


@pytest.mark.parametrize("seed", range(20))
def test_one_of_those_who_stand_is_the_owner(seed: int) -> None:
    dice = random.Random(seed)
    members = {number: Election("desk", number) for number in dice.sample(range(1, 1 << 40), 5)}
    for member in members.values():
        member.stand(0.0)
    assert len(elect(members, 0.0, dice, lost=0.0)) == 1


def test_the_next_one_has_a_higher_term_and_may_be_another() -> None:
    dice = random.Random(1)
    members = {number: Election("desk", number) for number in range(1, 9)}
    owners, now, terms = [], 0.0, []
    for _ in range(4):
        for member in members.values():
            member.stand(now)
        (owner,) = elect(members, now, dice, lost=0.0)
        terms.append(members[owner].term)
        del members[owner]
        owners.append(owner)
        for member in members.values():
            member.withdraw()
            member.on_owner(terms[-1])
        now += 20.0
    assert terms == [1, 2, 3, 4]
    assert owners != sorted(owners)


def test_whoever_stands_alone_is_it() -> None:
    alone = Election("desk", 5)
    assert alone.poll(0.0) is None
    alone.stand(0.0)
    assert alone.poll(0.0) == "say"
    assert alone.poll(STAND_S) == "own"
    assert not alone.stands


def test_one_that_fell_silent_does_not_hold_the_others_up() -> None:
    members = [Election("desk", number) for number in range(1, 20)]
    for member in members:
        member.stand(0.0)
    # All but the first died after they said that they stand.
    for other in members[1:]:
        members[0].on_stand(0.0, other.said())
    now = 0.0
    while members[0].poll(now) != "own":
        now += 0.05
        assert now < 2 * STAND_S + SILENT_S + 0.2


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"publisher": "x", "term": 1},
        {"publisher": 2, "term": float("inf")},
        {"publisher": 2, "term": 1 << 63},
    ],
)
def test_what_makes_no_sense_is_ignored(body: dict[str, Any]) -> None:
    member = Election("desk", 1)
    member.on_stand(0.0, body)
    assert member.term == 0


def test_whoever_knows_that_nobody_else_is_there_does_not_wait_for_others() -> None:
    alone = Election("desk", 5)
    alone.stand(0.0)
    assert alone.poll(0.0, alone=True) == "own"
    assert not alone.stands


def test_an_owner_that_does_not_hear_itself_does_not_become_one_again() -> None:
    with shoal.connect("inproc://deaf-owner") as bus:
        bus.queue("q").send("kept", persistent=False)
        channel = bus._connection.owners().main()
        owned = channel._owned
        assert owned is not None
        # Each look finds nobody, as on a machine that stands still for a while.
        for now in range(3):
            channel._election.stand(now)
            channel._stand(now + 2 * STAND_S, None)
        assert channel._owned is owned
        assert not channel._election.stands
        assert bus.queue("q").receive(5).body == "kept"
