"""A relay between two network interfaces: a long, narrow path that loses packets.

`python -m shoal_bench.relay LEFT RIGHT LOSS DELAY_S SEED [RATE_MBIT_S QUEUE_BYTES]`: every Ethernet frame of
one interface goes out at the other, unless it is dropped. With a rate, each direction passes so much and
holds so many bytes that wait. Stands between two hosts of a lab in place of a cable. Prints one line when it
is ready, and what it did when it is told to end.
"""

import heapq
import itertools
import json
import random
import select
import signal
import socket
import struct
import sys
import time

ALL_PROTOCOLS = 3
PACKET_OUTGOING = 4
ETHERNET_BYTES = 14


class Direction:
    """One direction of the path: how fast it is, and what waits."""

    def __init__(self, bytes_per_s: float | None, queue_bytes: int) -> None:
        self._bytes_per_s, self._queue_bytes = bytes_per_s, queue_bytes
        self._busy_until_s = 0.0

    def pass_through(self, now_s: float, length: int) -> float | None:
        """When a frame that comes now is through; none if there is no room for it to wait."""
        if self._bytes_per_s is None:
            return now_s
        waiting_s = max(0.0, self._busy_until_s - now_s)
        if waiting_s * self._bytes_per_s + length > self._queue_bytes and waiting_s > 0:
            return None
        self._busy_until_s = now_s + waiting_s + length / self._bytes_per_s
        return self._busy_until_s


class Relay:
    """Two sockets and the frames on their way."""

    def __init__(
        self, interfaces: list[str], loss: float, delay_s: float, seed: int, directions: list[Direction]
    ) -> None:
        self.random = random.Random(seed)
        self.loss, self.delay_s = loss, delay_s
        self.counts = {"seen": 0, "dropped": 0, "relayed": 0, "overflowed": 0}
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self.order = itertools.count()
        self.directions = directions
        self.sockets = [self._open(interface) for interface in interfaces]

    @staticmethod
    def _open(interface: str) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        opened.bind((interface, 0))
        opened.setblocking(False)
        return opened

    def turn(self) -> None:
        """Wait for frames or for the next departure, and move what can be moved."""
        pause = max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else 0.1
        readable, _, _ = select.select(self.sockets, [], [], min(pause, 0.1))
        for source in readable:
            self.take(self.sockets.index(source))
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(self.waiting)
            try:
                self.sockets[target].send(frame)
                self.counts["relayed"] += 1
            except OSError:
                self.counts["dropped"] += 1

    def take(self, side: int) -> None:
        """Take what came in on one side."""
        for _ in range(64):
            try:
                frame, address = self.sockets[side].recvfrom(70_000)
            except OSError:
                # Nothing waits, or the cable was pulled.
                return
            if address[2] == PACKET_OUTGOING:
                continue
            self.counts["seen"] += 1
            if self.random.random() < self.loss:
                self.counts["dropped"] += 1
                continue
            through_s = self.directions[side].pass_through(time.monotonic(), len(frame))
            if through_s is None:
                self.counts["overflowed"] += 1
                continue
            departure = through_s + self.delay_s
            heapq.heappush(self.waiting, (departure, next(self.order), 1 - side, with_checksum(frame)))


def with_checksum(frame: bytes) -> bytes:
    """The frame with a checksum that is right, or none: the sender left it to hardware that is not there."""
    ip = ETHERNET_BYTES
    if frame[12:14] != b"\x08\x00":
        return frame
    start, protocol = ip + 4 * (frame[ip] & 0xF), frame[ip + 9]
    if protocol == socket.IPPROTO_UDP:
        return frame[: start + 6] + b"\0\0" + frame[start + 8 :]
    if protocol != socket.IPPROTO_TCP:
        return frame
    end = ip + int.from_bytes(frame[ip + 2 : ip + 4], "big")
    segment = frame[start : start + 16] + b"\0\0" + frame[start + 18 : end]
    pseudo = frame[ip + 12 : ip + 20] + struct.pack(">HH", protocol, len(segment))
    # A sum of 16-bit words with the carries added is the whole taken as a number, modulo 65535.
    total = int.from_bytes(pseudo + segment + b"\0" * (len(segment) % 2), "big") % 0xFFFF
    checksum = (~total & 0xFFFF) or 0xFFFF
    return frame[: start + 16] + checksum.to_bytes(2, "big") + frame[start + 18 :]


def main() -> None:
    """Be the relay."""
    left, right, loss, delay_s, seed, *narrow = sys.argv[1:]
    rate = float(narrow[0]) * 1e6 / 8 if narrow else None
    queue_bytes = int(narrow[1]) if narrow else 0
    directions = [Direction(rate, queue_bytes) for _ in range(2)]
    relay = Relay([left, right], float(loss), float(delay_s), int(seed), directions)
    running = True

    def end(number: int, frame: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, end)
    print(json.dumps({"ready": True}), flush=True)
    while running:
        relay.turn()
    print(json.dumps(relay.counts), flush=True)


if __name__ == "__main__":
    main()
