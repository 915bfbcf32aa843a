"""A relay between two network interfaces that drops and delays packets.

`python relay.py LEFT RIGHT LOSS DELAY_S SEED`: every Ethernet frame of one interface goes out at the other,
unless it is dropped. Stands between two hosts of a lab in place of a cable. Prints one line when it is ready,
and what it did when it is told to end.
"""

import heapq
import itertools
import json
import random
import select
import signal
import socket
import sys
import time

ALL_PROTOCOLS = 3
PACKET_OUTGOING = 4


class Relay:
    """Two sockets and the frames on their way."""

    def __init__(self, interfaces: list[str], loss: float, delay_s: float, seed: int) -> None:
        self.random = random.Random(seed)
        self.loss, self.delay_s = loss, delay_s
        self.counts = {"seen": 0, "dropped": 0, "relayed": 0}
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self.order = itertools.count()
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
            except (BlockingIOError, OSError):
                self.counts["dropped"] += 1

    def take(self, side: int) -> None:
        """Take what came in on one side."""
        for _ in range(64):
            try:
                frame, address = self.sockets[side].recvfrom(70_000)
            except BlockingIOError:
                return
            if address[2] == PACKET_OUTGOING:
                continue
            self.counts["seen"] += 1
            if self.random.random() < self.loss:
                self.counts["dropped"] += 1
                continue
            departure = time.monotonic() + self.delay_s
            heapq.heappush(self.waiting, (departure, next(self.order), 1 - side, without_checksum(frame)))


def without_checksum(frame: bytes) -> bytes:
    """The frame, with no UDP checksum over IPv4: the sender left it to hardware that is not there."""
    ip = 14
    if frame[12:14] != b"\x08\x00" or frame[ip + 9] != socket.IPPROTO_UDP:
        return frame
    checksum = ip + 4 * (frame[ip] & 0xF) + 6
    return frame[:checksum] + b"\0\0" + frame[checksum + 2 :]


def main() -> None:
    left, right, loss, delay_s, seed = sys.argv[1:]
    relay = Relay([left, right], float(loss), float(delay_s), int(seed))
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
