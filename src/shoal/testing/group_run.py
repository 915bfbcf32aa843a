"""A store that a group of three keeps, simulated: disks, the network between the members, and clients.

Everything that `store_run` does to a store alone is done to the owner of the group, and the clients' history
is checked by the same rules: a client must not see the difference. Beside that, messages between members are
lost, late and doubled, members are cut off from the others, and each disk stops, tears writes and fails syncs
by itself. Disks are lost for good, one at a time: a new member copies the log, and takes the place of the old
one while clients go on. Some members stay away until the others remove what they lack.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from shoal._core import Log, Member, SimulatedDisk
from shoal.errors import StoreError
from shoal.store.copying import REPLICA, Copier
from shoal.testing.store_run import SEGMENT_BYTES, StoreRun

MEMBERS = (1, 2, 3)
ELECTION_S = 1.0
#: How far the time goes between two looks at the members.
LOOK_S = 0.02
#: An owner is elected within this number of looks, if most members can talk to each other.
LOOKS_MAX = 3000
#: How long a member that died stays away, and a cut lasts, at the most.
AWAY_S_MAX = 4.0
#: How long one stays away that is to lack what the others removed.
LONG_AWAY_S = 30.0
STORE = 7


class Site:
    """One member on its disk."""

    def __init__(self, run: GroupRun, id_: int, *, joins: bool = False) -> None:
        self.run, self.id, self.joins = run, id_, joins
        self.disk = SimulatedDisk(run.seed * 64 + id_)
        self.copier: Copier | None = None
        self.failure = ""
        self.log: Log | None = None
        self.member: Member | None = None
        #: Whether it was opened once: from then on its log is what it is.
        self.has_begun = False
        #: When it starts again, if it is dead.
        self.starts_at_s = 0.0
        self.lives = 0

    def open(self) -> None:
        """Start; the disk may fail again meanwhile."""
        run = self.run
        self.lives += 1
        founding = None if self.has_begun or self.joins else (STORE, bytes(16), list(MEMBERS), 1)
        try:
            self.log = Log.simulated_member(
                self.disk,
                member=self.id,
                founding=founding,
                joins=STORE if self.joins and not self.has_begun else None,
                segment_bytes=SEGMENT_BYTES,
                clock_us=run.now.wall_us,
                election_s=ELECTION_S,
                seed=run.seed * 1000 + self.id * 100 + self.lives,
            )
        except StoreError as error:
            self.failure = str(error)
            self.disk.restart()
            return
        self.member = Member(self.log)
        self.copier = Copier(self.id, self.member)
        self.has_begun = True
        if not run.is_healing:
            run.choose_faults(self.disk)

    def die(self, away_s: float) -> None:
        """The process is killed, and the page cache survives; or the power fails."""
        if self.member is not None:
            self.run.cuts += self.member.cuts
        if self.run.random.random() < 0.5:
            self.disk.kill()
        else:
            self.disk.restart()
        self.log = self.member = self.copier = None
        self.starts_at_s = self.run.now_s + away_s


class GroupRun(StoreRun):
    """One run."""

    def begin(self) -> None:
        """Make the members."""
        #: What the network does to members has a random source of its own: clients do the same in each run.
        self.weather = random.Random(self.seed ^ 0x67726F7570)
        self.sites = [Site(self, id_) for id_ in MEMBERS]
        #: When it arrives, for whom, from whom, and what.
        self.under_way: list[tuple[float, int, int, bytes]] = []
        #: Who is cut off from the others, and until when.
        self.cut_off, self.cut_until_s = 0, 0.0
        self.owner = self.sites[0]
        #: Terms in which a member served, and which: one of each.
        self.served: dict[int, int] = {}
        #: How often a member's log was cut off, or replaced by a copy.
        self.cuts = 0
        #: The member whose disk was lost, and its replacement.
        self.lost: tuple[int, Site] | None = None
        #: How many disks were replaced.
        self.replaced = 0

    # The members.

    def living(self) -> Iterator[tuple[Site, Log, Member]]:
        """Members that run, with what they have now: one may die meanwhile."""
        for site in list(self.sites):
            if site.log is not None and site.member is not None:
                yield site, site.log, site.member

    def carry(self) -> None:
        """A moment passes: messages between members arrive, disks are synced, who is dead starts again."""
        self.now_s += LOOK_S
        if self.now_s >= self.cut_until_s:
            self.cut_off = 0
        for site in self.sites:
            if site.member is None and self.now_s >= site.starts_at_s:
                site.open()
        due = [each for each in self.under_way if each[0] <= self.now_s]
        self.under_way = [each for each in self.under_way if each[0] > self.now_s]
        for site, log, member in self.living():
            try:
                log.set_clock_us(self.now.wall_us)
                for _, to, sender, content in sorted(due, key=lambda each: each[0]):
                    if to == site.id and self.cut_off not in (to, sender):
                        self.hand_over(site, member, content)
                member.handle_timeout()
                if site.copier is not None:
                    site.copier.handle_timeout(self.now_s)
                member.sync()
                if member.failure is not None:
                    raise StoreError(member.failure)
                member.take_events()
                copies = site.copier.take_transmits() if site.copier is not None else []
                for to, content in [*member.take_transmits(), *copies]:
                    self.send(site.id, to, content)
            except StoreError:
                site.die(self.away_s())
        self.operate()

    def hand_over(self, site: Site, member: Member, content: bytes) -> None:
        """Bytes arrive at a member."""
        if content[0] == REPLICA:
            member.handle_message(content)
        elif site.copier is not None:
            site.copier.handle_message(content, self.now_s)

    def lose_disk(self) -> None:
        """A disk is lost for good; an empty one is put in its place."""
        if self.lost is not None:
            return
        site = self.weather.choice(self.sites)
        site.die(0.0)
        made = Site(self, max(each.id for each in self.sites) + 1, joins=True)
        self.sites[self.sites.index(site)] = made
        self.lost = (site.id, made)

    def operate(self) -> None:
        """What an operator does after a disk was lost: a new member copies the log, then takes the place."""
        if self.lost is None:
            return
        old, made = self.lost
        for _, _, member in self.living():
            if not member.is_elected:
                continue
            voters, learners = member.members
            try:
                if made.id in voters and old not in voters:
                    self.lost = None
                    self.replaced += 1
                elif made.id not in (*voters, *learners):
                    member.change_members([("learner", made.id)])
                elif dict(member.progress)[made.id] >= member.indexes[3]:
                    member.change_members([("voter", made.id), ("none", old)])
            except StoreError:
                # Another change is under way.
                pass

    def away_s(self) -> float:
        """How long a member that dies stays away."""
        if not self.is_healing and self.weather.random() < 0.03:
            return LONG_AWAY_S
        return self.weather.choice((0.0, 0.5, AWAY_S_MAX)) if not self.is_healing else 0.0

    def send(self, sender: int, to: int, content: bytes) -> None:
        """A message between members sets out: it may be lost, late or doubled."""
        if not self.is_healing and self.weather.random() < 0.03:
            return
        for _ in range(1 if self.is_healing or self.weather.random() > 0.02 else 2):
            late_s = self.weather.choice((0.0, 0.0, 0.0, 0.01, 0.05, 0.3 if not self.is_healing else 0.0))
            self.under_way.append((self.now_s + late_s, to, sender, content))

    def owning(self) -> Site | None:
        """The member that owns the group now: there is never a second one."""
        owning = [(site, member.term) for site, _, member in self.living() if member.owns]
        assert len(owning) <= 1, f"two members own the group: {[(site.id, term) for site, term in owning]}"
        for site, term in owning:
            assert self.served.setdefault(term, site.id) == site.id, f"two members owned term {term}"
            return site
        return None

    # The store, as its owner has it.

    def open(self) -> None:
        """Wait until a member owns the group, and serve its log."""
        self.starts += 1
        for _ in range(LOOKS_MAX):
            owner = self.owning()
            if owner is not None and owner.log is not None:
                self.owner, self.log, self.disk = owner, owner.log, owner.disk
                self.begin_machine()
                return
            self.carry()
        raise AssertionError(f"no owner was elected: {self.describe_members()}")

    def is_deposed(self) -> bool:
        """Whether the member that was the owner is none any more."""
        member = self.owner.member
        return self.owner.log is not self.log or member is None or not member.is_elected

    def make_durable(self) -> None:
        """Return when the group has what was appended.

        Raises:
            StoreError: the owner was deposed, or died.
        """
        member = self.owner.member
        term = None if member is None else member.term
        self.log.sync()
        for _ in range(LOOKS_MAX):
            if self.is_deposed() or (self.owner.member and self.owner.member.term) != term:
                raise StoreError("another member owns the group")
            if self.log.is_settled:
                break
            self.carry()
        else:
            raise AssertionError(f"nothing is committed: {self.describe_members()}")
        if self.owner.member is None or not self.owner.member.owns:
            # It may answer again later, or be deposed: this simulation lets it begin anew.
            raise StoreError("the lease is over")

    def turn(self) -> None:
        """The members go on, and the owner serves."""
        self.carry()
        self.disturb_members()
        if self.is_deposed():
            self.crash()
        super().turn()

    def disturb_members(self) -> None:
        """A member dies, or is cut off from the others."""
        if self.is_healing:
            return
        what = self.weather.random()
        if what < 0.01:
            self.weather.choice(self.sites).die(self.away_s())
        elif what < 0.02:
            self.lose_disk()
        elif what < 0.05:
            self.cut_off = self.weather.choice((self.owner.id, *(site.id for site in self.sites)))
            self.cut_until_s = self.now_s + self.weather.random() * AWAY_S_MAX

    def start_again(self) -> None:
        """The owner died, or was deposed, or only its store ended: the next owner of the group serves."""
        if self.owner.log is self.log and (self.is_unfit() or self.random.random() < 0.5):
            self.owner.die(self.away_s())
        for _ in range(20):
            try:
                self.open()
                return
            except StoreError:
                self.owner.die(self.away_s())
        raise AssertionError(f"no owner could serve: {self.describe_members()}")

    def is_unfit(self) -> bool:
        """Whether the owner's log is full."""
        member = self.owner.member
        return self.log.failure is not None or self.disk.is_stopped or member is None or bool(member.failure)

    def restart(self) -> None:
        """The owner closes in an orderly way, and starts again."""
        try:
            self.machine.close(self.now)
            if self.machine.append(self.now):
                self.make_durable()
            self.machine.settle(self.now)
            self.log.close()
        except StoreError:
            pass
        if self.owner.log is self.log:
            self.owner.die(0.0)
        self.crash()

    def pass_time(self, seconds: float) -> None:
        """Time passes for all."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.carry()
        super().pass_time(0.0)
        try:
            self.machine.handle_timeout(self.now)
        except StoreError:
            self.crash()

    def mend(self) -> None:
        """Nothing goes wrong with disks and network any more."""
        self.cut_off = 0
        for site in self.sites:
            site.disk.set_faults()
            if site.member is None or site.disk.is_stopped or site.member.failure is not None:
                site.die(0.0)
        if self.is_deposed() or self.is_unfit():
            self.crash()

    def heal(self) -> None:
        """No more faults: everything arrives everywhere, and all members have the same log."""
        super().heal()
        for _ in range(3000):
            is_level = all(log.is_settled and log.durable == self.log.durable for _, log, _ in self.living())
            if is_level and self.lost is None:
                break
            self.carry()
        assert self.lost is None, f"a lost disk was not replaced: {self.describe_members()}"
        logs = [log for _, log, _ in self.living()]
        assert len(logs) == len(MEMBERS), f"a member is missing: {self.describe_members()}"
        kept = [log.rows(log.floor, log.durable_end, rows_max=1 << 30) for log in logs]
        assert kept[0] == kept[1] == kept[2], f"members have other rows: {self.describe_members()}"
        assert len({log.durable for log in logs}) == 1, f"members end elsewhere: {self.describe_members()}"

    def describe_members(self) -> str:
        """How each member is, for a reader that looks for the reason."""
        found = [
            (site.id, member.term, member.owner, member.indexes, member.owns)
            for site, _, member in self.living()
        ]
        failures = [(site.id, site.failure) for site in self.sites if site.member is None]
        return (
            f"cut off {self.cut_off}, members {found}, lost {self.lost and self.lost[0]}, not open {failures}"
        )

    def describe(self) -> str:
        """What is left, for a person who looks for the reason."""
        return f"{super().describe()}, {self.describe_members()}"
