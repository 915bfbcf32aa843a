"""Flush and sync as state: how far everything behind a node is, under the tree that its digest names.

A program watches a subject: its own messages (`flush`), or its own interest (`sync`). Every router then
reports the minimum over its children on the tree of the subject's root, whenever that changes, to its parent
or to the program itself. A report under another digest does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .records import Complete, Root, Subject, Watch

if TYPE_CHECKING:
    from .network import Link
    from .node import Node

EVERYTHING = 10**9
#: Without C13, a Watch that was forwarded less than this ago is not forwarded again.
WATCH_S = 0.5
#: A router that left the tree without a goodbye may return for this time (C12).
RESUME_S = 5.0


class Watched(NamedTuple):
    """The last Watch of a subject."""

    root: Root
    stamp: int
    at_s: float


class Completeness:
    """Reports of others, and what follows of them for this node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._reports: dict[int, dict[Subject, Complete]] = {}
        self.watched: dict[Subject, Watched] = {}
        self._said: dict[Subject, Complete] = {}
        #: The routers on the tree, and when others left it.
        self._there: frozenset[int] = frozenset()
        self._left_at_s: dict[int, float] = {}

    def forget(self, member: int) -> None:
        """What a neighbour reported counts no more."""
        self._reports.pop(member, None)

    # --- records ---

    def on_watch(self, link: Link, sender: int, record: Watch) -> None:
        """A program wants reports; a router forwards that, and both report."""
        node = self._node
        before = self.watched.get(record.subject)
        if node.is_router:
            if before is None or self._is_newer(record, before):
                self.watched[record.subject] = Watched(record.root, record.stamp, node.now_s)
                node.relay(link, sender, record)
            self.report(record.subject)
        elif record.subject.kind == "messages":
            self.watched[record.subject] = Watched(record.root, record.stamp, node.now_s)
            self.acknowledge(record.subject.program)

    def _is_newer(self, record: Watch, before: Watched) -> bool:
        if self._node.rules.watch_stamp:
            return record.stamp > before.stamp
        return record.root != before.root or before.at_s < self._node.now_s - WATCH_S

    def on_complete(self, sender: int, record: Complete) -> None:
        """A neighbour reports."""
        self._reports.setdefault(sender, {})[record.subject] = record
        self.report(record.subject, only_changed=True)

    # --- a program's report ---

    def acknowledge(self, publisher: int) -> None:
        """Report how far this program read a chain that is watched, to all routers and to its publisher."""
        node, subject = self._node, Subject("messages", publisher)
        if subject not in self.watched:
            return
        chain = node.chain(publisher, None)
        number = max(chain.next - 1, 0)
        if not node.rules.program_next:
            number = max(number, chain.last)
        losers = frozenset([node.id]) if node.has_lost(publisher) else frozenset[int]()
        for link in node.links:
            for member in node.members[link.number]:
                if not node.is_program(member) or member == publisher:
                    node.tell(link, member, Complete(subject, number, None, losers))

    # --- a router's report ---

    def report_all(self, *, only_changed: bool = False) -> None:
        """Report all that is watched."""
        for subject in list(self.watched):
            self.report(subject, only_changed=only_changed)

    def report(self, subject: Subject, *, only_changed: bool = False) -> None:
        """Tell the parent on the tree, or the program itself, how far all behind this router are."""
        node = self._node
        if not node.is_router or subject not in self.watched:
            return
        root = self.watched[subject].root
        number, losers = self.behind(subject, root)
        tree = node.tree(root)
        said = Complete(subject, number, tree.digest, losers)
        if only_changed and self._said.get(subject) == said:
            return
        self._said[subject] = said
        upstream = tree.upstream(node.id)
        for link in node.links:
            for member in node.members[link.number]:
                if member == subject.program or (link.number, member) == upstream:
                    node.tell(link, member, said)

    # --- how far all behind a node are ---

    def behind(self, subject: Subject, root: Root) -> tuple[int, frozenset[int]]:
        """The number up to which all behind this node have the subject, and who lost some of it."""
        node, tree = self._node, self._node.tree(root)
        numbers: list[int] = []
        losers: set[int] = set()

        def count(member: int) -> None:
            report = self._reports.get(member, {}).get(subject)
            if report is None or report.digest not in (None, tree.digest):
                numbers.append(0)
            else:
                numbers.append(report.number)
                losers.update(report.losers)

        if node.is_router:
            numbers.append(self._own(subject))
        if node.rules.tree_children:
            for child, number in self._children(root):
                if child in node.members.get(number, ()):
                    count(child)
                else:
                    # C9: nobody else is responsible for what is behind it.
                    numbers.append(0)
        for link in node.links:
            for member in node.members[link.number]:
                if member != subject.program and self._counts(subject, root, link, member):
                    count(member)
        return min(numbers, default=EVERYTHING), frozenset(losers)

    def _own(self, subject: Subject) -> int:
        if subject.kind == "messages":
            chain = self._node.chains.get(subject.program)
            return max(chain.next - 1, 0) if chain else 0
        versions = [
            version
            for record in self._node.interests.values()
            for program, version in record.versions
            if program == subject.program
        ]
        return max(versions, default=0)

    def _children(self, root: Root) -> list[tuple[int, int]]:
        node, tree = self._node, self._node.tree(root)
        if node.is_router:
            return tree.next_routers(node.id)
        if root[0] == "lan":
            return [(router, root[1]) for router in tree.entry_routers()]
        return [(root[1], link.number) for link in node.links if root[1] in node.members[link.number]] or [
            (root[1], node.links[0].number)
        ]

    def _counts(self, subject: Subject, root: Root, link: Link, member: int) -> bool:
        """Whether a neighbour that is alive has to report."""
        node = self._node
        if not node.is_router:
            return not node.is_program(member) or (subject.kind == "messages" and self._wants(member))
        tree = node.tree(root)
        if node.is_program(member):
            serves = not link.is_lan or tree.serves(node.id, link.number)
            return subject.kind == "messages" and serves and self._wants(member)
        return (member, link.number) in tree.next_routers(node.id)

    def _wants(self, member: int) -> bool:
        """Whether a program wants something, or has not said yet."""
        said = [announce for (_, other), announce in self._node.announced.items() if other == member]
        return not said or any(announce.interest for announce in said)

    # --- C12 ---

    def note_tree(self, root: Root) -> None:
        """The map changed: remember when routers left the tree."""
        there = frozenset(vertex for vertex in self._node.tree(root).parents if isinstance(vertex, int))
        for router in self._there - there:
            self._left_at_s[router] = self._node.now_s
        for router in there:
            self._left_at_s.pop(router, None)
        self._there = there

    def is_router_missing(self) -> bool:
        """Whether a router left the tree without a goodbye, and may still return."""
        since_s = self._node.now_s - RESUME_S
        return self._node.rules.missing_router and any(at_s > since_s for at_s in self._left_at_s.values())
