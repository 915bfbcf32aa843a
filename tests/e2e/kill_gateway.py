"""Kills a gateway and its store under STOMP clients; then compares what they were told with what is there.

python tests/e2e/kill_gateway.py [--cycles 20] [--seed N]

Clients of four kinds run meanwhile. *Senders* send numbered messages, and repeat what has no receipt.
*Committers* send pairs in numbered transactions. *Feeders* fill a queue. *Movers* take each of its messages
into another queue, with the acknowledgement and the send in one transaction. What must hold at the end:

1. Every message with a receipt is there, and no message twice.
2. A pair is there whole, or not at all; whole if its commit has a receipt.
3. A message that was fed is in one of the two queues, and only there.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stomp_program import LostError, StompProgram

import shoal
from shoal.processes.gateway import GatewayProcess
from shoal.processes.store import StoreProcess

#: How long a client waits before it connects again.
RETRY_S = 0.05
#: How long clients run between two kills, at the most.
RUN_S = 1.5


class Clients:
    """The clients, and what they were told."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        #: Numbers with a receipt, by kind.
        self.told: dict[str, set[int]] = {}
        #: The last number that was sent, by kind.
        self.sent: Counter[str] = Counter()
        self.moved = self.lost = 0

    def start(self) -> None:
        kinds: list[tuple[str, Callable[[str], None]]] = [
            ("sent-1", self._send),
            ("sent-2", self._send),
            ("pair-1", self._commit),
            ("pair-2", self._commit),
            ("in-1", self._send),
            ("mover-1", self._move),
            ("mover-2", self._move),
        ]
        for kind, work in kinds:
            self.told[kind] = set()
            self._threads.append(threading.Thread(target=work, args=(kind,)))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _connect(self, **headers: str) -> StompProgram | None:
        while not self._ended.is_set():
            try:
                return StompProgram(self._url, **headers)
            except (LostError, TimeoutError):
                self.lost += 1
                time.sleep(RETRY_S)
        return None

    def _send(self, kind: str) -> None:
        """Numbered messages, several of them without a receipt at a time."""
        queue = kind.partition("-")[0]
        unanswered: dict[int, str] = {}
        while not self._ended.is_set():
            client = self._connect(shoal_publisher=f"publisher-{kind}")
            if client is None:
                return
            try:
                for number in sorted(unanswered):
                    self._send_one(client, queue, kind, number, shoal_repeat="true")
                while not self._ended.is_set():
                    while len(unanswered) < 20:
                        self.sent[kind] += 1
                        unanswered[self.sent[kind]] = kind
                        self._send_one(client, queue, kind, self.sent[kind])
                    receipt = client.next(lambda frame: frame.command == "RECEIPT")
                    number = int(receipt.headers["receipt-id"])
                    del unanswered[number]
                    self.told[kind].add(number)
            except (LostError, TimeoutError):
                self.lost += 1
            client.close()

    def _send_one(self, client: StompProgram, queue: str, kind: str, number: int, **more: str) -> None:
        client.send(
            "SEND",
            f"{kind} {number}".encode(),
            destination=f"/queue/{queue}",
            persistent="true",
            content_type="text/plain",
            shoal_id=str(number),
            receipt=str(number),
            **more,
        )

    def _commit(self, kind: str) -> None:
        """Pairs, each in a transaction of its own."""
        number = 1
        while not self._ended.is_set():
            client = self._connect(shoal_publisher=f"publisher-{kind}")
            if client is None:
                return
            try:
                while not self._ended.is_set():
                    self.sent[kind] = number
                    client.send("BEGIN", transaction="t", shoal_id=str(number))
                    for side in ("left", "right"):
                        client.send(
                            "SEND",
                            f"{kind} {number}".encode(),
                            destination=f"/queue/{side}",
                            persistent="true",
                            content_type="text/plain",
                            transaction="t",
                        )
                    client.call("COMMIT", transaction="t")
                    self.told[kind].add(number)
                    number += 1
            except (LostError, TimeoutError):
                self.lost += 1
            client.close()

    def _move(self, kind: str) -> None:
        """Messages of one queue into another."""
        while not self._ended.is_set():
            client = self._connect()
            if client is None:
                return
            try:
                client.call(
                    "SUBSCRIBE", id="1", destination="/queue/in", ack="client-individual", prefetch_count="5"
                )
                while not self._ended.is_set():
                    message = client.message(1.0)
                    if message is None:
                        continue
                    client.send("BEGIN", transaction="t")
                    client.send("ACK", id=message.headers["ack"], transaction="t")
                    client.send(
                        "SEND",
                        message.body,
                        destination="/queue/out",
                        persistent="true",
                        content_type="text/plain",
                        transaction="t",
                    )
                    client.call("COMMIT", transaction="t")
                    self.moved += 1
            except (LostError, TimeoutError):
                self.lost += 1
            client.close()


def check(clients: Clients, queues: dict[str, list[str]]) -> list[str]:
    """What is wrong, a line each."""
    wrong = []
    for kind in (kind for kind in clients.told if not kind.startswith("mover")):
        name = kind.partition("-")[0]
        for queue in {"sent": ["sent"], "pair": ["left", "right"], "in": ["in+out"]}[name]:
            found = Counter(
                int(body.partition(" ")[2]) for body in queues[queue] if body.partition(" ")[0] == kind
            )
            if lost := clients.told[kind] - found.keys():
                wrong.append(
                    f"{queue}: {len(lost)} of {kind} have a receipt and are not there: {sorted(lost)[:5]}"
                )
            if twice := [number for number, times in found.items() if times > 1]:
                wrong.append(f"{queue}: {len(twice)} of {kind} are there twice: {twice[:5]}")
            if strange := [number for number in found if not 0 < number <= clients.sent[kind]]:
                wrong.append(f"{queue}: {kind} never sent {strange[:5]}")
    if odd := Counter(queues["left"]) - Counter(queues["right"]):
        wrong.append(f"{len(odd)} pairs have a left half alone: {list(odd)[:5]}")
    if odd := Counter(queues["right"]) - Counter(queues["left"]):
        wrong.append(f"{len(odd)} pairs have a right half alone: {list(odd)[:5]}")
    return wrong


def run(cycles: int, seed: int, directory: Path) -> list[str]:
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    with StoreProcess(directory / "store", record="none") as store, GatewayProcess(store.domain) as gateway:
        clients = Clients(gateway.url)
        clients.start()
        try:
            for cycle in range(cycles):
                time.sleep(rng.uniform(0.2, RUN_S))
                victims = rng.choice([[gateway], [gateway], [store], [gateway, store], [store, gateway]])
                for victim in victims:
                    victim.kill()
                for victim in reversed(victims):
                    victim.start()
                names = "+".join(type(victim).__name__.removesuffix("Process") for victim in victims)
                told = sum(map(len, clients.told.values()))
                print(f"{cycle + 1}: {names}; {told} receipts, {clients.moved} moved", flush=True)
            time.sleep(1.0)
        finally:
            clients.stop()
        with shoal.connect(domain=store.domain, interface="lo") as bus:
            names = ("sent", "left", "right", "in", "out")
            queues = {name: [str(message.body) for message in bus.queue(name).browse()] for name in names}
        queues["in+out"] = queues["in"] + queues["out"]
        counts = ", ".join(f"{name} {len(bodies)}" for name, bodies in queues.items())
        print(f"{counts}; connections lost {clients.lost}", flush=True)
        return check(clients, queues)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        wrong = run(options.cycles, options.seed, Path(directory))
    sys.exit("\n".join(wrong) if wrong else None)


if __name__ == "__main__":
    main()
