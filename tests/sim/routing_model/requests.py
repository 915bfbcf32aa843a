"""Requests for what is missing: one for each chain, repeated with growing pauses, and given up in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chain import Ask, Chain
from .node import Node
from .records import Replay

if TYPE_CHECKING:
    from .network import Link

#: A request that brings nothing for this time is given up.
REPLAY_S = 5.0
#: How often a router asks one neighbour before it asks the next.
ASKS_OF_ONE = 3
#: A random delay before the first request, so that one request serves others that lack the same.
DELAY_S, DELAY_MORE_S = 0.001, 0.02
#: The pause after the first request; it doubles.
PAUSE_S, PAUSE_MAX_S = 0.1, 1.0


class AskingNode(Node):
    """A node that asks; it knows what it lacks, and whom to ask."""

    requests: Requests

    def open_number(self, chain: Chain) -> int | None:
        """The lowest number that it lacks; 0 by age."""
        raise NotImplementedError

    def neighbours_to_ask(self, chain: Chain, count: int) -> list[tuple[Link, int]]:
        """In which order, after so many requests."""
        raise NotImplementedError

    def age_to_ask(self, asked_s: float | None) -> float:
        """The time from which on messages are wanted."""
        raise NotImplementedError

    def before_asking(self, chain: Chain) -> None:
        """A request is about to be made."""

    def give_up(self, chain: Chain, first: int) -> None:
        """Nothing came for too long."""
        raise NotImplementedError


class Requests:
    """The requests of one node."""

    def __init__(self, node: AskingNode, *, patience: float, asks_of_one: int) -> None:
        self._node, self._patience_s, self._asks_of_one = node, REPLAY_S * patience, asks_of_one

    def need(
        self, chain: Chain, first: int, age_s: float | None = None, via: tuple[Link, int] | None = None
    ) -> None:
        """Ask for a chain from a number on, or by age; `via` is where the gap was noticed."""
        ask = chain.ask
        if ask is not None:
            ask.first = min(ask.first, first)
            if age_s is not None:
                ask.age_s = age_s if ask.age_s is None else min(ask.age_s, age_s)
            return
        node = self._node
        chain.ask = ask = Ask(first, age_s, node.now_s, via, (first, chain.progress()), wait_s=PAUSE_S)
        node.later(DELAY_S + node.network.draw.random() * DELAY_MORE_S, self._ask, chain, ask)

    def again(self, chain: Chain) -> None:
        """Ask if something is missing and nothing was asked for."""
        if chain.ask is None and (first := self._node.open_number(chain)) is not None:
            self.need(chain, first)

    def _ask(self, chain: Chain, ask: Ask) -> None:
        if chain.ask is not ask:
            return
        node = self._node
        node.before_asking(chain)
        first = node.open_number(chain)
        if first is None:
            chain.ask = None
            return
        if (mark := (first, chain.progress())) != ask.mark:
            ask.mark, ask.began_s, ask.count, ask.wait_s = mark, node.now_s, 0, PAUSE_S
        if node.now_s - ask.began_s > self._patience_s:
            node.give_up(chain, first)
            chain.ask = None
            node.later(0.0, self.again, chain)
            return
        if (to := self._whom(chain, ask)) is not None:
            ask.count += 1
            node.network.counts["requests"] += 1
            age_s = node.age_to_ask(ask.age_s) if first == 0 else None
            node.tell(*to, Replay(chain.publisher, first, age_s, chain.root))
        node.later(ask.wait_s, self._ask, chain, ask)
        ask.wait_s = min(2 * ask.wait_s, PAUSE_MAX_S)

    def _whom(self, chain: Chain, ask: Ask) -> tuple[Link, int] | None:
        node = self._node
        found = [ask.via] if ask.via and ask.count < 1 else []
        found += node.neighbours_to_ask(chain, ask.count)
        found = [(link, each) for link, each in found if link.is_up and each in node.members[link.number]]
        return found[(ask.count // self._asks_of_one) % len(found)] if found else None
