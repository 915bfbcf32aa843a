"""Forwards messages to other stores: for each rule a connection to the next store, and what it says here."""

import logging
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.bus.inside import channel_to
from shoal.bus.sync import Bus
from shoal.config import ConnectionConfig
from shoal.config.roles import ClientConfig
from shoal.messages import store as notices
from shoal.store.forward_chain import ForwardChain
from shoal.store.forwards import Next
from shoal.store.numbers import Chain, Run
from shoal.store.rule import ForwardRule
from shoal.store.serving import Serving

log = logging.getLogger("shoal.store")


class ServedKeeper:
    """What a rule tells the store that it belongs to. May be shared between threads."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def next_of(self, name: str) -> Next | None:
        """The store that the rule led to."""
        return self._serving.machine.forwards.next_of(name)

    def set_next(self, name: str, to: Next) -> None:
        """The rule leads to this store."""
        self._serving.set_next(name, to)

    def release(self, name: str, end: int, messages: int, size: int) -> None:
        """Messages below an offset need no longer be kept."""
        self._serving.forwarded(name, end, messages, size)

    def give_up(self, name: str, first: int, end: int, why: str) -> bool:
        """The next store never takes these; false if there is no room for them here."""
        moved = self._serving.give_up_forwarded(name, first, end, why)
        if moved:
            notices.NOT_FORWARDED(rule=name, messages=moved, why=why.rstrip(".")).log(log)
        return moved is not None

    def uneven(self, chain: Chain) -> list[Run] | None:
        """The runs of a publisher's chain that is not one run."""
        numbers = self._serving.machine.numbers
        return numbers.uneven(chain) if len(numbers) else None

    @property
    def upstream(self) -> list[str]:
        """The stores that a message here may have come through."""
        return self._serving.machine.custody.upstream


class Forwarder:
    """One rule at work. May be shared between threads."""

    def __init__(self, rule: ForwardRule, serving: Serving, domain: str, bytes_max: int) -> None:
        self.rule = rule
        self._said: str | None = None
        client = ClientConfig(
            store_url=rule.to,
            token_file=rule.token_file,
            store_fingerprint=rule.fingerprint,
            store_ca=rule.ca,
        )
        # A domain of its own: all it does is to lead to the next store.
        own = ConnectionConfig(
            scheme="inproc", domain=f"forward-{secrets.token_hex(8)}", message_bytes_max=bytes_max
        )
        self._bus = Bus(own)
        self._channel = channel_to(self._bus, client, rule.domain or domain)
        self.chain = ForwardChain(
            rule,
            serving.log,
            ServedKeeper(serving),
            lambda: self._channel.greeting,
            place=serving.machine.forwards.place(rule.name),
            clock=time.monotonic,
        )
        self._channel.add_chain(self.chain)

    def wake(self) -> None:
        """Messages may have become durable."""
        self._channel.look_in_time()

    def go_on(self, place: int) -> None:
        """An operator let the rule go on, or dropped what waited below an offset."""
        with self._channel.locked():
            self.chain.skip(place)

    def note_trouble(self) -> None:
        """Log why nothing is forwarded, once."""
        why = self.chain.stopped or self.chain.refused
        if why is not None and why != self._said:
            notices.FORWARDING_STOPPED(rule=self.rule.name, why=why.rstrip(".")).log(log)
        self._said = why

    def status(self) -> dict[str, Any]:
        """How it is, for people."""
        # A session outlives a short cut of its link.
        chain, is_open = self.chain, self._channel.is_open and self._channel.is_linked
        state = "connecting" if not is_open else "stopped" if chain.stopped else "open"
        if state == "open" and chain.refused:
            state = "refused"
        greeting = self._channel.greeting
        why = chain.stopped or chain.refused if is_open else self._channel.trouble() or None
        return {"state": state, "why": why, "next": greeting.get("name"), "next_store": greeting.get("store")}

    def close(self) -> None:
        """Forward nothing more; the log keeps what is left."""
        self._channel.close(0.5, lambda reader: False)
        self._bus.close(0.0)


class Forwarding:
    """All rules of a store. May be shared between threads."""

    def __init__(
        self, rules: Iterable[ForwardRule], serving: Serving, *, domain: str, bytes_max: int
    ) -> None:
        self._serving = serving
        self._forwarders = {rule.name: Forwarder(rule, serving, domain, bytes_max) for rule in rules}
        serving.when_durable = self.wake

    def wake(self) -> None:
        """Messages may have become durable, or an operator changed a rule."""
        ruled = self._serving.take_ruled()
        for name, forwarder in self._forwarders.items():
            if name in ruled:
                forwarder.go_on(ruled[name])
            forwarder.wake()

    def turn(self) -> None:
        """Once a second: log what is wrong."""
        for forwarder in self._forwarders.values():
            forwarder.note_trouble()

    def status(self, rules: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """How each rule is."""
        return [{**rule, **self._forwarders[rule["name"]].status()} for rule in rules]

    def close(self) -> None:
        """Forward nothing more."""
        for forwarder in self._forwarders.values():
            forwarder.close()
