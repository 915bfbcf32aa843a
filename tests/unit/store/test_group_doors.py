"""What stores of a group hear from each other and from operators: random and nearly right bytes."""

import json
import random
import struct
from typing import Any

import pytest

from shoal._core import Log, Member, SimulatedDisk
from shoal.store.copying import ASK, PART, Copier
from shoal.store.founding import Founding
from shoal.store.operating import Commands
from shoal.store.roster import KNOWN_MAX, SILENT_S, VERSION, Heard, Roster

NOW_S = 1_000_000.0


def member_of(id_: int, *, joins: bool = False) -> tuple[Log, Member]:
    log = Log.simulated_member(
        SimulatedDisk(id_),
        member=id_,
        founding=None if joins else (7, bytes(16), [id_], 1),
        joins=7 if joins else None,
        segment_bytes=32 << 10,
        clock_us=int(NOW_S * 1e6),
        election_s=1.0,
        seed=id_,
    )
    return log, Member(log)


def value(dice: random.Random, depth: int = 0) -> Any:
    kinds: list[Any] = [None, True, -1, 0, 1, 2**63, 2**70, 0.5, "", "g", "7", "learner", b"".decode()]
    if depth < 2 and dice.random() < 0.4:
        if dice.random() < 0.5:
            return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
        return {str(dice.choice(kinds)): value(dice, depth + 1) for _ in range(dice.randrange(4))}
    return dice.choice(kinds)


def whole() -> dict[str, Any]:
    return {
        "version": VERSION,
        "member": 5,
        "name": "b",
        "url": "tcp://127.0.0.1:1",
        "fingerprint": None,
        "founding": Founding.begin("g", [1, 2]).said(),
        "members": {"at": 4, "voters": [1, 2], "learners": []},
        "life": 1,
        "lives": {"1": 2},
        "forced": 0,
    }


def said(dice: random.Random) -> dict[str, Any]:
    made = whole()
    for name in dice.sample(sorted(made), dice.randrange(4)):
        made[name] = value(dice)
    return made


@pytest.mark.parametrize("seed", range(4))
def test_what_a_store_says_of_itself_makes_sense_or_is_nothing(seed: int) -> None:
    dice, understood = random.Random(seed), 0
    for _ in range(2000):
        heard = Heard.of(json.loads(json.dumps(said(dice))), NOW_S)
        understood += heard is not None
        assert Heard.of(value(dice), NOW_S) is None
    assert 0 < understood < 2000


def test_no_more_stores_are_known_than_a_group_can_have() -> None:
    roster = Roster()
    every = [Heard.of(whole() | {"member": id_}, NOW_S) for id_ in range(1, 1000)]
    assert sum(heard is not None and roster.note(heard) for heard in every) == KNOWN_MAX
    assert len(roster.all()) == KNOWN_MAX
    # Those that fell silent make room.
    late = Heard.of(whole() | {"member": 2000}, NOW_S + 2 * SILENT_S)
    assert late is not None
    assert roster.note(late)
    assert [heard.member for heard in roster.all()] == [2000]


@pytest.mark.parametrize("seed", range(4))
def test_commands_that_make_no_sense_are_refused_in_words(seed: int) -> None:
    log, member = member_of(1)
    for _ in range(200):
        log.set_clock_us(log.clock_us + 20_000)
        member.handle_timeout()
        member.sync()
    assert member.owns
    commands, dice = Commands(1, Roster(), lambda: {"state": "owner"}), random.Random(seed)
    for _ in range(2000):
        request = value(dice)
        if dice.random() < 0.8:
            known = [member.term, list(map(sorted, member.members))] if dice.random() < 0.7 else value(dice)
            request = {"act": dice.choice(["add", "vote", "remove", "transfer", "show", value(dice)])}
            request |= {"member": dice.choice([1, 2, value(dice)]), "known": known, "replaces": value(dice)}
        assert commands.answer(request, member).keys() <= {"status", "failed"}
    assert member.members == ([1], [])


@pytest.mark.parametrize("seed", range(4))
def test_bytes_between_members_end_nobody_and_get_no_more_than_they_ask_for(seed: int) -> None:
    dice = random.Random(seed)
    _, member = member_of(1)
    log, joining = member_of(2, joins=True)
    for copier, one in ((Copier(1, member), member), (Copier(2, joining), joining)):
        for _ in range(3000):
            numbers = [dice.choice([0, 1, 2, 5, 2**31, 2**63, dice.getrandbits(64)]) for _ in range(4)]
            kinds = [
                struct.pack(
                    "<BQIQI", ASK, numbers[0], numbers[1] & 0xFFFFFFFF, numbers[2], numbers[3] & 0xFFFFFFFF
                ),
                struct.pack("<BQIQ", PART, numbers[0], numbers[1] & 0xFFFFFFFF, numbers[2]) + bytes(50),
                dice.randbytes(dice.randrange(1, 60)),
            ]
            content = dice.choice(kinds)[: dice.randrange(1, 80)]
            copier.handle_message(content, NOW_S)
            one.handle_message(content)
            copier.handle_timeout(NOW_S)
            assert all(len(sent) <= (256 << 10) + 21 for _, sent in copier.take_transmits())
        assert one.failure is None
    assert log.failure is None
