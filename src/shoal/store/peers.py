"""Bytes between the members of a group: one door for what others send, and a way of its own to each other.

Raft stands losses, repetitions and delays; so what cannot be sent at once is dropped.
"""

import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from shoal import _core
from shoal.bus.inside import be_private, core_of
from shoal.bus.sync import Bus, connect
from shoal.errors import ClosedError, FullError, ShoalError
from shoal.threads import start

log = logging.getLogger("shoal.store")

#: Messages of members that wait to be handled.
INBOX_BYTES_MAX = 64 << 20
#: How long to wait before another try to reach a member.
DIAL_AGAIN_S = 0.3
MAC_BYTES = 32


def topic_of(group: str, member: int) -> str:
    """Where a member hears the others."""
    return f"_group/{group}/{member:016x}"


class Seal:
    """Proves that a member with the group's token wrote the bytes; without a token it proves nothing."""

    def __init__(self, token: bytes | None, group: str) -> None:
        named = b"shoal group\0" + group.encode() + b"\0"
        self._key = None if token is None else hashlib.sha256(named + token).digest()

    def close(self, content: bytes) -> bytes:
        """The bytes with their proof."""
        return content if self._key is None else self._mac(content) + content

    def open(self, sealed: bytes) -> bytes | None:
        """The bytes without their proof; none if it is wrong."""
        if self._key is None:
            return sealed
        content = sealed[MAC_BYTES:]
        return content if hmac.compare_digest(sealed[:MAC_BYTES], self._mac(content)) else None

    def _mac(self, content: bytes) -> bytes:
        assert self._key is not None
        return hmac.digest(self._key, content, "sha256")


class Peer:
    """The way to one other member."""

    def __init__(self, domain: str, topic: str, fingerprint: str | None) -> None:
        self._domain, self._topic, self._fingerprint = domain, topic, fingerprint
        self._url: str | None = None
        self._bus: Bus | None = None
        self._is_dialling = False
        self._dial_at_s = 0.0
        self._lock = threading.Lock()
        self._is_closed = False
        #: Messages that could not be sent.
        self.dropped = 0

    def lead_to(self, url: str, fingerprint: str | None) -> None:
        """The member listens there now."""
        if (url, fingerprint) == (self._url, self._fingerprint):
            return
        self._url, self._fingerprint = url, fingerprint
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            bus, self._bus = self._bus, None
        if bus is not None:
            start(threading.Thread(target=bus.close, args=(0,), name="shoal-peer-close", daemon=True))

    def send(self, content: bytes) -> None:
        """Send now, or never."""
        bus = self._bus
        if bus is None:
            self.dropped += 1
            self._dial()
            return
        try:
            bus.publish(self._topic, content, timeout_s=0.0)
        except FullError:
            self.dropped += 1
        except ClosedError:
            self.dropped += 1
            self._drop()
        except ShoalError as error:
            self.dropped += 1
            log.debug("a message for %s cannot be sent: %s", self._topic, error)

    def _dial(self) -> None:
        """Connect, in a thread that ends with that."""
        if self._is_dialling or self._url is None or time.monotonic() < self._dial_at_s:
            return
        self._is_dialling = True
        start(threading.Thread(target=self._connect, name="shoal-peer-dial", daemon=True))

    def _connect(self) -> None:
        url = self._url
        assert url is not None
        pinned: dict[str, Any] = {} if self._fingerprint is None else {"tls_fingerprint": self._fingerprint}
        try:
            bus = connect(url, domain=self._domain, **pinned)
            be_private(bus)
        except ShoalError as error:
            log.debug("the member at %s cannot be reached: %s", url, error)
        else:
            with self._lock:
                is_wanted = url == self._url and not self._is_closed
                if is_wanted:
                    self._bus = bus
            if not is_wanted:
                bus.close(0)
        finally:
            self._dial_at_s = time.monotonic() + DIAL_AGAIN_S
            self._is_dialling = False

    def close(self) -> None:
        """End the way; what was sent last may arrive."""
        self._is_closed = True
        with self._lock:
            bus, self._bus = self._bus, None
        if bus is not None:
            bus.close(0.2)

    def abandon(self) -> None:
        """End the way to a store that is no member any more."""
        self._is_closed = True
        self._drop()


class Peers:
    """The ways to all other members, and the door."""

    def __init__(self, door: Bus, domain: str, group: str, member: int, seal: Seal) -> None:
        self._domain, self._group, self._seal = domain, group, seal
        self._inbox = door.subscribe(topic_of(group, member), queue_bytes_max=INBOX_BYTES_MAX)
        self._peers: dict[int, Peer] = {}
        #: Messages whose proof was wrong.
        self.unproven = 0

    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring when something came."""
        core_of(self._inbox).attach_bell(bell, source)

    def meet(self, member: int, url: str, fingerprint: str | None) -> None:
        """A member says where it listens."""
        peer = self._peers.get(member)
        if peer is None:
            peer = self._peers[member] = Peer(self._domain, topic_of(self._group, member), fingerprint)
        peer.lead_to(url, fingerprint)

    def keep(self, members: set[int]) -> None:
        """End the ways to all others."""
        for member in self._peers.keys() - members:
            self._peers.pop(member).abandon()

    def send(self, member: int, content: bytes) -> None:
        """Send bytes to a member, if it can be reached."""
        peer = self._peers.get(member)
        if peer is not None:
            peer.send(self._seal.close(content))

    def take(self, each: Callable[[bytes], None]) -> None:
        """Hand over what came."""
        for message in self._inbox.receive_nowait(1000):
            content = self._seal.open(bytes(message.body)) if isinstance(message.body, bytes) else None
            if content is None:
                self.unproven += 1
            else:
                each(content)

    @property
    def dropped(self) -> int:
        """Messages that could not be sent."""
        return sum(peer.dropped for peer in self._peers.values())

    def close(self) -> None:
        """End all ways."""
        for peer in self._peers.values():
            peer.close()
