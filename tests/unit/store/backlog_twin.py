"""A plain, slow backlog: what the kernel must do, written down as rules over one list."""

from dataclasses import dataclass, field

READY, WAITING, TAKEN = "ready", "waiting", "taken"
NEVER = 1 << 62


@dataclass
class Entry:
    offset: int
    priority: int
    group: str | None
    due: int
    expires: int
    #: When it was stored, or its delivery time.
    at: int = 0
    state: str = READY
    owner: int | None = None
    again: int = 0
    delivered: int = 0
    #: An absent consumer's, under whose lease it may have been handed over.
    lease: int = 0
    #: It was given out while that was so.
    perhaps: bool = False

    @property
    def next_delivery(self) -> int:
        return 0 if (self.perhaps or self.lease) and not self.delivered else self.delivered + 1


@dataclass
class BacklogTwin:
    """All messages of a queue that are not done."""

    entries: dict[int, Entry] = field(default_factory=dict)

    def see(self, entry: Entry, now: int) -> None:
        self.entries[entry.offset] = entry
        self._stand(entry, entry.due, now)

    def _stand(self, entry: Entry, due: int, now: int) -> None:
        entry.owner = None
        entry.again = due
        entry.state = WAITING if due > now else READY

    def _may_have(self, entry: Entry, consumer: int) -> bool:
        if entry.group is None:
            return True
        group = [each for each in self.entries.values() if each.group == entry.group]
        if any(each.state == WAITING and (each.delivered or each.perhaps) for each in group):
            return False
        if any(each.state == TAKEN and each.owner != consumer for each in group):
            return False
        first = min((each for each in group if each.state == READY), key=self._rank)
        return first is entry

    @staticmethod
    def _rank(entry: Entry) -> tuple[int, int, int]:
        return -entry.priority, entry.at, entry.offset

    def take(self, consumer: int, now: int, count: int) -> list[tuple[int, int]]:
        """Offsets and deliveries; what expired is done on the way."""
        taken: list[tuple[int, int]] = []
        while len(taken) < count:
            ready = [each for each in self.entries.values() if each.state == READY]
            ready = [each for each in ready if self._may_have(each, consumer)]
            if not ready:
                break
            entry = min(ready, key=self._rank)
            if entry.expires <= now:
                del self.entries[entry.offset]
                continue
            entry.state, entry.owner = TAKEN, consumer
            taken.append((entry.offset, entry.next_delivery))
            entry.perhaps = entry.perhaps or entry.lease > 0
        return taken

    def held(self, consumer: int) -> list[int]:
        return sorted(each.offset for each in self.entries.values() if each.owner == consumer)

    def acknowledge(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self.entries[offset]

    def give_back(self, offsets: list[int], seen: bool, due: int, now: int) -> None:
        for offset in offsets:
            entry = self.entries[offset]
            entry.delivered += seen
            self._stand(entry, due, now)

    def abandon(self, consumer: int, handed: list[int], lease: int, now: int) -> None:
        for offset in self.held(consumer):
            entry = self.entries[offset]
            if offset in handed:
                entry.delivered += 1
            else:
                entry.lease = lease
            self._stand(entry, 0, now)

    def absolve(self, lease: int) -> None:
        for entry in self.entries.values():
            entry.lease = 0 if entry.lease == lease else entry.lease

    def wake(self, now: int) -> None:
        for entry in list(self.entries.values()):
            if entry.state == WAITING and entry.again <= now:
                self._stand(entry, 0, now)
        for entry in list(self.entries.values()):
            if entry.state != TAKEN and entry.expires <= now:
                del self.entries[entry.offset]
