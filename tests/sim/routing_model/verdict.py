"""The invariants of a run: what programs may count on, whatever happens to the network.

| invariant | what it says |
|---|---|
| accounted | a subscriber read every message that it wanted after its `sync()`, or was told that it is lost |
| in order, once | it read numbers once and in order, and was told of no loss of what it read |
| flush | when a flush is confirmed, every subscriber has all, or is named as one that lost some |
| needless | nothing is reported lost that a live node with a path still has |
| bounded | rings and answers stay within their bounds |
| ends | when nothing happens any more, nodes say nothing more |
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from .chain import Kept
from .complete import RESUME_S
from .network import Network
from .node import Node
from .program import Flush, Program
from .records import matches
from .requests import REPLAY_S
from .router import Router

#: Members and routers notice within this time that a path broke, or is back.
NOTICE_S = 4.0
ANSWERS_MAX = 2


class Published(NamedTuple):
    """What was published."""

    number: int
    topic: int
    value: int
    at_s: float


class Verdict:
    """Follows a run, and judges it."""

    def __init__(self, network: Network, publishers: list[Program], subscribers: list[Program]) -> None:
        self._network, self._publishers, self._subscribers = network, publishers, subscribers
        self.published: dict[int, list[Published]] = defaultdict(list)
        self.closing: dict[int, Flush] = {}
        #: Programs that a neighbour takes for dead though they are not.
        self.taken_for_dead: set[int] = set()
        self._fault_at_s = 0.0
        #: By (publisher, subscriber): since when they are apart.
        self._apart_since_s: dict[tuple[int, int], float] = {}
        #: When a subscriber last had no router beside it.
        self._alone_at_s: dict[int, float] = {}
        network.on_lost = self._on_lost
        network.on_confirmed = self._on_confirmed

    # --- what happens ---

    def note_published(self, publisher: Program, topic: int, value: int) -> None:
        """A message has a number."""
        self.published[publisher.id].append(Published(publisher.published, topic, value, self._network.now_s))

    def note_fault(self) -> None:
        """Something fails, or works again."""
        now_s = self._fault_at_s = self._network.now_s
        for subscriber in self._subscribers:
            beside = [node for link in subscriber.links if link.is_up for node in link.nodes]
            if not any(node.is_router and node.works for node in beside):
                self._alone_at_s[subscriber.id] = now_s
            for publisher in self._publishers:
                pair = (publisher.id, subscriber.id)
                if self._is_joined(publisher, subscriber):
                    self._apart_since_s.pop(pair, None)
                else:
                    self._apart_since_s.setdefault(pair, now_s)

    def _is_joined(self, one: Node, two: Node) -> bool:
        """Whether a path of nodes that work leads from one to the other."""
        seen, waiting = {one}, [one]
        while waiting:
            node = waiting.pop()
            if node is two:
                return True
            if node is not one and not node.is_router:
                continue
            for link in node.links:
                if link.is_up:
                    found = [other for other in link.nodes if other not in seen and other.works]
                    seen.update(found)
                    waiting += found
        return False

    def _on_lost(self, reader: Node, publisher_id: int, number: int) -> None:
        """Needless?"""
        network = self._network
        if network.now_s - self._fault_at_s < REPLAY_S + 2:
            return
        publisher = network.nodes[publisher_id]
        assert isinstance(publisher, Program)
        if not publisher.is_dead and number in publisher.history and self._is_joined(reader, publisher):
            what = f"{reader.id} lost {number} of {publisher_id}, which its publisher has"
            network.violate("needless", what)
            return
        for node in network.nodes.values():
            chain = node.chains.get(publisher_id)
            if (
                isinstance(node, Router)
                and not node.is_dead
                and chain is not None
                and isinstance(chain.ring.get(number), Kept)
                and self._is_joined(reader, node)
            ):
                network.violate(
                    "needless", f"{reader.id} lost {number} of {publisher_id}, which {node.id} has"
                )
                return

    def _on_confirmed(self, flush: Flush) -> None:
        """True?"""
        self._network.counts["flushes confirmed"] += 1
        for subscriber in self._subscribers:
            if self._is_excused(flush, subscriber):
                continue
            received = set(subscriber.received[flush.publisher])
            lost = set(subscriber.lost[flush.publisher])
            for message in self._wanted(subscriber, flush.publisher):
                if message.number > flush.number or message.number in received:
                    continue
                if message.number not in lost:
                    what = f"{subscriber.id} lacks {message.number} of {flush.publisher}"
                    self._network.violate("flush", what)
                    return
                if subscriber.id not in flush.losers:
                    what = f"{subscriber.id} lost {message.number} of {flush.publisher} and is not named"
                    self._network.violate("flush", what)
                    return

    def _is_excused(self, flush: Flush, subscriber: Program) -> bool:
        """A flush does not wait for members that failed, or routers that are gone for long."""
        now_s, pair = self._network.now_s, (flush.publisher, subscriber.id)
        if subscriber.is_dead or subscriber.id in self.taken_for_dead:
            return True
        if now_s - self._alone_at_s.get(subscriber.id, -NOTICE_S) < NOTICE_S:
            return True
        return now_s - self._apart_since_s.get(pair, now_s) >= RESUME_S

    # --- the end ---

    def judge(self, *, work_after_settling: int) -> None:
        """Look at all invariants that can be judged at the end."""
        network = self._network
        if work_after_settling:
            network.violate("ends", f"{work_after_settling} records after all was settled")
        for subscriber in self._subscribers:
            for publisher in self._publishers:
                self._judge_pair(subscriber, publisher)
        for node in network.nodes.values():
            for chain in node.chains.values():
                answers = [to for to in chain.targets if to.asker is not None]
                if isinstance(node, Router) and len(chain.ring) > node.ring_max:
                    network.violate("bounded", f"the ring of {node.id} has {len(chain.ring)} entries")
                if len(answers) > ANSWERS_MAX:
                    network.violate("bounded", f"{node.id} answers {len(answers)} askers")

    def _judge_pair(self, subscriber: Program, publisher: Program) -> None:
        received, lost = set(subscriber.received[publisher.id]), set(subscriber.lost[publisher.id])
        if both := sorted(received & lost):
            what = f"{subscriber.id} read {both[:3]} of {publisher.id}, and was told that they are lost"
            self._network.violate("in order, once", what)
        for message in self._wanted(subscriber, publisher.id):
            self._network.counts["wanted"] += 1
            if message.number in received or message.number in lost:
                continue
            if self._is_unknown(publisher, message.number):
                self._network.counts["unknown tails"] += 1
                continue
            where = "head" if not received or message.number < min(received) else "middle"
            where = "tail" if received and message.number > max(received) else where
            what = f"{subscriber.id} misses {message.number} of {publisher.id} in silence, at the {where}"
            self._network.violate("accounted", what)
            return

    def _is_unknown(self, publisher: Program, number: int) -> bool:
        """Its publisher is gone without a confirmation, and no node that lives has heard of the number."""
        closing = self.closing.get(publisher.id)
        if not publisher.is_dead or (closing is not None and closing.outcome == "confirmed"):
            return False
        chains = [
            node.chains[publisher.id]
            for node in self._network.nodes.values()
            if not node.is_dead and publisher.id in node.chains
        ]
        return not any(chain.last >= number or chain.next > number for chain in chains)

    def _wanted(self, subscriber: Program, publisher: int) -> list[Published]:
        return [
            message
            for message in self.published[publisher]
            if any(
                message.at_s > subscriber.confirmed_at_s.get(key, self._network.now_s)
                and matches(frozenset([entry]), message.topic, message.value)
                for key, entry in subscriber.subscriptions.items()
            )
        ]
