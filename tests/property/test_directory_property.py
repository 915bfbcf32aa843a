"""A registry's directory under any sequence of registrations, goodbyes, proofs and time."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from shoal.link.directory import Endpoint, Load, Record
from shoal.registry.directory import LEASE_S, Directory, DirectoryFullError, NotYoursError

SECRET = bytes(32)
DAEMONS_MAX = 6
DOMAINS, OWNERS = ("a", "b"), ("one", "two")


def record(number: int, host: int = 1, connections_max: int = 10, load: Load | None = None) -> Record:
    endpoint = Endpoint("tcp", f"10.0.0.{host}", 7474)
    return Record(
        f"{number:016x}", f"d{number}", (endpoint,), connections_max=connections_max, load=load or Load()
    )


class DirectoryMachine(RuleBasedStateMachine):
    """The directory beside a model: what each domain has, whose it is, until when, and what was proved."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.clock = 0.0, 1000.0
        self.directory = Directory(0.0, wall=lambda: self.clock, daemons_max=DAEMONS_MAX)
        self.model: dict[tuple[str, str], tuple[Record, str, float, bool]] = {}
        self.stamps: dict[str, int] = {}
        self.seen: set[int] = set()

    daemons = Bundle("daemons")

    @rule(target=daemons, number=st.integers(1, 9))
    def know(self, number: int) -> int:
        return number

    @rule(
        domain=st.sampled_from(DOMAINS), number=daemons, host=st.integers(1, 2), owner=st.sampled_from(OWNERS)
    )
    def register(self, domain: str, number: int, host: int, owner: str) -> None:
        one = record(number, host)
        key = (domain, one.publisher)
        before, known = self.directory.stamp(domain), self.model.get(key)
        try:
            self.directory.register(self.now, domain, one, owner=owner, secret=SECRET)
        except DirectoryFullError:
            assert known is None
            assert len(self.model) == DAEMONS_MAX
            return
        except NotYoursError:
            assert known is not None
            assert known[1] != owner
            return
        is_same = known is not None and known[0] == one
        assert (self.directory.stamp(domain) == before) == is_same
        self.model[key] = (one, owner, self.now + LEASE_S, bool(known and is_same and known[3]))

    @rule(domain=st.sampled_from(DOMAINS), number=daemons)
    def prove(self, domain: str, number: int) -> None:
        key = (domain, record(number).publisher)
        known = self.model.get(key)
        if known is not None:
            is_news = self.directory.prove(*key, SECRET, known[0].endpoints[0])
            assert is_news != known[3]
            self.model[key] = (*known[:3], True)

    @rule(domain=st.sampled_from(DOMAINS), number=daemons, owner=st.sampled_from(OWNERS))
    def leave(self, domain: str, number: int, owner: str) -> None:
        key = (domain, record(number).publisher)
        known = self.model.get(key)
        try:
            assert self.directory.leave(*key, owner) == (known is not None)
        except NotYoursError:
            assert known is not None
            assert known[1] != owner
        else:
            self.model.pop(key, None)

    @rule(passed_s=st.floats(0.0, 10.0), jump_s=st.floats(-500.0, 500.0))
    def pass_time(self, passed_s: float, jump_s: float) -> None:
        """Time passes, and the clock of the day is set."""
        self.now, self.clock = self.now + passed_s, max(self.clock + jump_s, 0.0)
        self.directory.expire(self.now)
        self.model = {key: known for key, known in self.model.items() if known[2] > self.now}

    @invariant()
    def the_list_is_the_models(self) -> None:
        assert len(self.directory) == len(self.model) <= DAEMONS_MAX
        for domain in DOMAINS:
            shown = {each.publisher: bool(each.endpoints) for each in self.directory.records(domain)}
            assert shown == {key[1]: known[3] for key, known in self.model.items() if key[0] == domain}

    @invariant()
    def a_stamp_never_comes_back(self) -> None:
        for domain in DOMAINS:
            stamp = self.directory.stamp(domain)
            if stamp and stamp != self.stamps.get(domain):
                assert stamp not in self.seen
                assert stamp > max(self.seen, default=0)
                self.seen.add(stamp)
                self.stamps[domain] = stamp

    @invariant()
    def clients_are_sent_to_proved_addresses_alone(self) -> None:
        for domain in DOMAINS:
            for candidate in self.directory.rank(domain, "10.0.0.7"):
                assert self.model[domain, candidate.record.publisher][3]


DirectoryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestDirectory = DirectoryMachine.TestCase


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(40, 400), min_size=2, max_size=10),
    st.integers(0, 1 << 30),
    st.sampled_from([0.3, 0.6, 0.9]),
)
def test_clients_spread_by_capacity(capacities: list[int], seed: int, part: float) -> None:
    directory = Directory(0.0, wall=lambda: 0.0, chance=random.Random(seed))
    for number, capacity in enumerate(capacities):
        one = record(number, connections_max=capacity)
        directory.register(0.0, "d", one, secret=SECRET)
        directory.prove("d", one.publisher, SECRET, one.endpoints[0])
    chosen: Counter[str] = Counter()
    clients = int(sum(capacities) * part)
    for client in range(clients):
        best = directory.rank("d", "10.0.0.7")[0].record
        chosen[best.publisher] += 1
        directory.chosen("d", best.publisher)
        if client % 50 == 49:
            # Daemons say how many they have.
            for number, capacity in enumerate(capacities):
                load = Load(chosen[f"{number:016x}"])
                directory.register(
                    0.0, "d", record(number, connections_max=capacity, load=load), secret=SECRET
                )
    for number, capacity in enumerate(capacities):
        fair = clients * capacity / sum(capacities)
        assert chosen[f"{number:016x}"] == pytest.approx(fair, rel=0.15, abs=6)
