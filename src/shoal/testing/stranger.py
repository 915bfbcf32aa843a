"""A stranger at the group without a key: he hears what is sent to it, and sends copies, changed or not."""

from __future__ import annotations

import random

from shoal.testing.domain import Domain

#: Copies are made of at most this number of datagrams.
HEARD_MAX = 20_000
#: Bytes in which a changed copy differs are among the first: there are a message's headers.
HEADER_BYTES = 40
#: Acknowledgements go to one node, so that he does not hear them.
NORM_ACK = 5
#: Messages of senders have types up to this one.
NORM_COMMAND = 3


class Stranger:
    """He follows from a domain's seed, so that a run repeats itself."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._random = random.Random(domain.seed)
        self.heard: list[bytes] = []
        domain.record_trace()

    def listen(self) -> None:
        """Take note of what was sent to the group since the last time."""
        for datagram in self._domain.take_trace():
            if datagram.content[0] & 0xF == NORM_ACK or datagram.source not in self._domain.nodes:
                continue
            if len(self.heard) < HEARD_MAX:
                self.heard.append(datagram.content)
            else:
                self.heard[self._random.randrange(HEARD_MAX)] = datagram.content

    def send_changed(self, count: int) -> None:
        """Send copies of which one to three bytes are others."""
        for _ in range(count):
            copy = bytearray(self._random.choice(self.heard))
            for _ in range(self._random.randint(1, 3)):
                copy[self._random.randrange(min(len(copy), HEADER_BYTES))] = self._random.randrange(256)
            self._domain.inject(bytes(copy))

    def send_as(self, count: int, *, node: int | None = None, instance: int | None = None) -> None:
        """Send the newest copies as if another node had sent them, or another run of the same one."""
        for content in self.heard[-count:]:
            if content[0] & 0xF > NORM_COMMAND:
                continue
            copy = bytearray(content)
            if node is not None:
                copy[4:8] = node.to_bytes(4, "big")
            if instance is not None:
                copy[8:10] = instance.to_bytes(2, "big")
            self._domain.inject(bytes(copy))

    def send_again(self, count: int) -> None:
        """Send copies as they were."""
        for _ in range(count):
            self._domain.inject(self._random.choice(self.heard))
