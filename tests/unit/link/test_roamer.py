"""When a program moves to another daemon: rules one by one, then a simulated network with faults."""

import math
import random
from dataclasses import dataclass, field

import pytest

from shoal.config.target import Target
from shoal.link.directory import Endpoint
from shoal.link.registry_client import Candidate, Located
from shoal.link.roamer import (
    APART_S,
    LOOK_S,
    OVERLAP_S,
    SUSPECT_S,
    Action,
    Leave,
    Locate,
    Measure,
    Moved,
    Open,
    Roamer,
)


def at(number: int) -> Target:
    return Target("tcp", "10.0.0.1", number)


def candidate(number: int, load: float = 0.0) -> Candidate:
    return Candidate(Endpoint("tcp", "10.0.0.1", number), f"{number:016x}", "", load)


def actions(roamer: Roamer) -> list[Action]:
    return list(iter(roamer.poll_action, None))


def events(roamer: Roamer) -> list[Moved]:
    return list(iter(roamer.poll_event, None))


@pytest.fixture
def roamer() -> Roamer:
    made = Roamer(0.0, can_locate=True, chance=random.Random(1))
    made.on_moved(0.0, at(1), "")
    return made


def test_the_first_daemon_is_no_move(roamer: Roamer) -> None:
    assert events(roamer) == []
    assert actions(roamer) == []


def test_a_redirect_opens_a_link_before_the_old_one_is_left(roamer: Roamer) -> None:
    roamer.on_redirect(5.0, [at(1), at(2), at(3)])
    assert actions(roamer) == [Open(at(2))]
    roamer.on_redirect(5.1, [at(2)])
    assert actions(roamer) == [], "one move at a time"
    roamer.on_up(5.2, at(2))
    assert [(each.before, each.to) for each in events(roamer)] == [(at(1), at(2))]
    assert roamer.poll_timeout() == 5.2 + OVERLAP_S
    roamer.handle_timeout(5.2 + OVERLAP_S)
    assert actions(roamer) == [Leave(at(1))]


def test_the_next_place_is_tried_and_without_any_it_stays(roamer: Roamer) -> None:
    roamer.on_redirect(5.0, [at(2), at(3)])
    roamer.on_failed(5.1, at(2))
    roamer.on_failed(5.2, at(9))
    assert actions(roamer) == [Open(at(2)), Open(at(3))]
    roamer.on_failed(5.3, at(3))
    assert actions(roamer) == []
    assert not roamer.is_moving
    assert roamer.current == at(1)
    assert events(roamer) == []


def test_a_silent_daemon_is_left(roamer: Roamer) -> None:
    roamer.on_silence(1.0, SUSPECT_S / 2)
    assert actions(roamer) == []
    roamer.on_silence(2.0, SUSPECT_S)
    roamer.on_silence(2.2, SUSPECT_S + 0.2)
    assert actions(roamer) == [Locate()], "asked once"
    roamer.on_located(2.3, Located((candidate(1), candidate(4))))
    assert actions(roamer) == [Open(at(4))]
    roamer.on_up(2.4, at(4))
    (moved,) = events(roamer)
    assert "nothing was heard" in moved.why


def test_a_daemon_that_is_heard_again_before_the_registry_answers_is_kept(roamer: Roamer) -> None:
    roamer.on_silence(2.0, SUSPECT_S)
    roamer.on_silence(2.1, 0.0)
    roamer.on_located(2.3, Located((candidate(4),)))
    assert not [each for each in actions(roamer) if isinstance(each, Open)]


def test_an_overloaded_daemon_is_left_for_an_idle_one(roamer: Roamer) -> None:
    roamer.handle_timeout(2 * LOOK_S)
    assert actions(roamer) == [Locate()]
    roamer.on_located(2 * LOOK_S, Located((candidate(2, 0.7), candidate(3, 0.4)), 0.9))
    assert actions(roamer) == [Open(at(3))]


def look(roamer: Roamer, now: float, ours: float, theirs: float) -> list[Action]:
    roamer.handle_timeout(now)
    roamer.on_located(now, Located((candidate(2, 0.7),), 0.5))
    found = actions(roamer)
    if any(isinstance(each, Measure) for each in found):
        roamer.on_measured(now, {at(1): ours, at(2): theirs})
    return actions(roamer)


def test_a_nearer_daemon_is_used_after_three_measurements_in_a_row(roamer: Roamer) -> None:
    now = 2 * LOOK_S
    assert look(roamer, now, 0.050, 0.010) == []
    assert look(roamer, now + 2 * LOOK_S, 0.050, 0.010) == []
    assert look(roamer, now + 4 * LOOK_S, 0.050, 0.049) == [], "the row is broken"
    for times in (6, 8):
        assert look(roamer, now + times * LOOK_S, 0.050, 0.010) == []
    assert look(roamer, now + 10 * LOOK_S, 0.050, 0.010) == [Open(at(2))]
    roamer.on_up(now + 10 * LOOK_S, at(2))
    moved_at = now + 10 * LOOK_S
    roamer.handle_timeout(moved_at + OVERLAP_S)
    actions(roamer)
    roamer.handle_timeout(moved_at + APART_S - 1)
    assert actions(roamer) == [], "moves for a better response are apart"


def test_a_tiny_gain_moves_nobody(roamer: Roamer) -> None:
    for times in range(2, 20, 2):
        assert look(roamer, times * LOOK_S, 0.0005, 0.0001) == []


def test_without_registries_it_looks_for_nothing() -> None:
    roamer = Roamer(0.0, can_locate=False)
    roamer.on_moved(0.0, at(1), "")
    assert roamer.poll_timeout() == math.inf
    roamer.handle_timeout(1e6)
    assert actions(roamer) == []
    roamer.on_redirect(1e6, [at(2)])
    assert actions(roamer) == [Open(at(2))]


def test_a_link_that_broke_and_leads_elsewhere_is_told(roamer: Roamer) -> None:
    roamer.on_moved(9.0, at(7), "reset by peer")
    assert events(roamer) == [Moved(at(1), at(7), "reset by peer")]


# --- a network with faults ---


@dataclass
class Daemon:
    """A daemon of the simulated network."""

    alive: bool = True
    #: Stopped: connections are accepted and nothing is answered.
    frozen_since: float = -1.0
    frozen_until: float = -1.0
    leaving: bool = False
    load: float = 0.1
    round_trip_s: float = 0.01

    def answers(self, now: float) -> bool:
        return self.alive and now >= self.frozen_until


@dataclass
class World:
    """One program, daemons that fail, and a registry that answers late, or not at all, or with old news."""

    seed: int
    count: int = 6
    now: float = 0.0
    daemons: dict[Target, Daemon] = field(default_factory=dict)
    links: dict[Target, float] = field(default_factory=dict)
    due: list[tuple[float, int, Action]] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)
    without_s: float = 0.0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        for number in range(1, self.count + 1):
            self.daemons[at(number)] = Daemon(round_trip_s=self.chance.uniform(0.001, 0.1))
        self.roamer = Roamer(0.0, can_locate=True, chance=self.chance)
        self._number = 0
        self._connect(at(1), "")

    def _connect(self, place: Target, why: str) -> None:
        self.links = {place: self.now}
        self.roamer.on_moved(self.now, place, why)

    def run(self, seconds: float, step_s: float = 0.25) -> None:
        while self.now < seconds:
            self.now += step_s
            self._break_something()
            self._own_link()
            self._answer()
            self.roamer.handle_timeout(self.now)
            self._act()
            self._check(step_s)

    def _break_something(self) -> None:
        for daemon in self.daemons.values():
            roll = self.chance.random()
            if roll < 0.0006:
                daemon.alive = not daemon.alive
            elif roll < 0.0012:
                daemon.frozen_since, daemon.frozen_until = self.now, self.now + self.chance.uniform(0.5, 60.0)
            elif roll < 0.0016:
                daemon.leaving = not daemon.leaving
            elif roll < 0.004:
                daemon.load = self.chance.random()
        for place in [place for place in self.links if not self.daemons[place].alive]:
            del self.links[place]

    def _own_link(self) -> None:
        """What the dialler does: a link that broke leads to another daemon that answers."""
        current = self.roamer.current
        assert current is not None
        if current not in self.links:
            up = [place for place, daemon in self.daemons.items() if daemon.answers(self.now)]
            if up:
                self._connect(self.chance.choice(up), "the link broke")
            return
        daemon = self.daemons[current]
        if daemon.leaving and self.chance.random() < 0.3:
            others = self.chance.sample(list(self.daemons), 3)
            self.roamer.on_redirect(self.now, others)
        self.roamer.on_silence(self.now, 0.0 if daemon.answers(self.now) else self.now - daemon.frozen_since)

    def _act(self) -> None:
        for action in actions(self.roamer):
            match action:
                case Leave(place):
                    assert len(self.links) > 1 or place not in self.links, "no link is left without another"
                    self.links.pop(place, None)
                case _:
                    self._number += 1
                    self.due.append((self.now + self.chance.uniform(0.0, 2.0), self._number, action))
        self.moves += events(self.roamer)

    def _answer(self) -> None:
        for entry in sorted(self.due):
            if entry[0] <= self.now:
                self.due.remove(entry)
                self._answer_one(entry[2])

    def _answer_one(self, action: Action) -> None:
        roamer = self.roamer
        match action:
            case Locate():
                known = [
                    place
                    for place, daemon in self.daemons.items()
                    if daemon.alive or self.chance.random() < 0.2
                ]
                chosen = self.chance.sample(known, min(3, len(known)))
                ours = self.daemons[roamer.current].load if roamer.current else None
                found = [candidate(place.port, self.daemons[place].load) for place in chosen]
                lost = self.chance.random() < 0.2
                roamer.on_located(self.now, Located(()) if lost else Located(tuple(found), ours))
            case Measure(places):
                took = {
                    place: self.daemons[place].round_trip_s for place in places if self.daemons[place].alive
                }
                roamer.on_measured(self.now, took)
            case Open(place):
                if self.daemons[place].answers(self.now) and place != roamer.current:
                    self.links[place] = self.now
                    roamer.on_up(self.now, place)
                else:
                    roamer.on_failed(self.now, place)

    def _check(self, step_s: float) -> None:
        assert len(self.links) <= 3, "two links while it moves, and one that is being left"
        if not any(self.daemons[place].answers(self.now) for place in self.links):
            if any(daemon.answers(self.now) for daemon in self.daemons.values()):
                self.without_s += step_s
        else:
            self.without_s = 0.0
        # Each question and each attempt takes up to 2 s, and many find nobody.
        assert self.without_s < 30.0, f"without a daemon that answers for {self.without_s} s"


@pytest.mark.parametrize("seed", range(60))
def test_a_program_is_always_at_some_daemon_and_never_leaves_before_it_arrives(seed: int) -> None:
    world = World(seed)
    world.run(3600.0)
    assert world.moves, "an hour of trouble moves a program"
    assert all(each.before != each.to for each in world.moves)
    for_better = [each for each in world.moves if "takes" in each.why or "full" in each.why]
    assert len(for_better) <= 3600 / APART_S + 1
