"""A soak: publishers and subscribers under steady load while others freeze, go on, die and come back.

`python tests/e2e/soak.py --seconds 600 [--seed N]`. Three publishers, each in three priority classes, two
subscribers that nobody touches, and two more that are. What must hold to the end: everybody who stays gets
every message of every publisher and class, in order and once; who was stopped got what it did not lose, in
order and once; nobody who stays grows, in memory, threads or descriptors; requests are answered.
"""

import argparse
import random
import time
from pathlib import Path

from programs import Failure, Peer, loopback_url

#: A busy machine fills it late: one for each publisher and class.
RECEIVE_WINDOW_BYTES = 1 << 20
#: Bytes a program may grow by once it is warm: receive windows, the queue of its subscription and caches for
#: repair may still have been empty then.
GROWTH_BYTES_MAX = 24 << 20
#: What a visitor that does not read may say when it leaves, beside the names of members that were stopped.
LOSSES = r"SHOAL-210[12] Lost |SHOAL-2112 Similar warnings suppressed: \d+ \((MessagesLost|MemberSlow)\)"
#: A member that a busy machine lets wait for less is not left behind; one that is stopped is.
SLOW_AFTER_S = 2.0
#: A member that says nothing for five of them is taken for dead.
HEARTBEAT_S = 1.0
CLASSES = (1, 4, 8)
PUBLISHERS = 3
#: How long somebody is stopped at the most: longer than its heartbeats last, some of the time.
STOPPED_S_MAX = 6.0


class Soak:
    """The programs of one run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.url = loopback_url()
        self.all: list[Peer] = []
        self.troubled: set[int] = set()
        self.publishers = [self.start() for _ in range(PUBLISHERS)]
        self.subscribers = [self.start() for _ in range(2)]
        self.stopped = self.start_visitor()
        self.published = dict.fromkeys(self.sources(), 0)
        self.asked = 0
        for subscriber in self.subscribers:
            subscriber.ask("subscribe", pattern="soak/>")
        self.subscribers[0].ask("subscribe", pattern="ask", reply=True)
        for publisher in self.publishers:
            publisher.ask("wait_for_subscribers", topic="soak/0", count=2)

    def sources(self) -> list[int]:
        """One for every publisher and priority class."""
        return [10 * number + priority for number in range(PUBLISHERS) for priority in CLASSES]

    def start(self) -> Peer:
        """One more program."""
        peer = Peer(
            self.url,
            heartbeat_s=HEARTBEAT_S,
            slow_after_s=SLOW_AFTER_S,
            receive_window_bytes=RECEIVE_WINDOW_BYTES,
        )
        self.all.append(peer)
        return peer.connected()

    def start_visitor(self, read: bool = True) -> Peer:
        """One more program that subscribes."""
        visitor = self.start()
        visitor.ask("subscribe", pattern="soak/>", read=read)
        return visitor

    def publish(self) -> None:
        """A burst of every publisher in every class."""
        for number, publisher in enumerate(self.publishers):
            for priority in CLASSES:
                source = 10 * number + priority
                count = self.random.randrange(50, 400)
                sizes = [self.random.choice((20, 200, 1400, 3000, 50_000)) for _ in range(7)]
                publisher.ask(
                    "publish",
                    topic=f"soak/{number}",
                    count=count,
                    sizes=sizes,
                    source=source,
                    start=self.published[source],
                    priority=priority,
                )
                self.published[source] += count

    def disturb(self) -> None:
        """Somebody comes, subscribes, and freezes, dies or leaves; somebody else is stopped and goes on."""
        visitor = self.start_visitor(read=self.random.random() < 0.5)
        self.stop_for_a_while()
        self.publish()
        match self.random.randrange(3):
            case 0:
                self.freeze(visitor)
                self.publish()
            case 1:
                pass
            case 2:
                visitor.ask("close")
                visitor.finish(says=self.warnings())
        self.kill(visitor)

    def freeze(self, peer: Peer) -> None:
        """It takes nothing any more, and others may say so."""
        self.troubled.add(peer.node)
        peer.freeze()

    def kill(self, peer: Peer) -> None:
        """It takes nothing ever again, and others may say so."""
        self.troubled.add(peer.node)
        self.all.remove(peer)
        peer.kill()

    def warnings(self) -> str:
        """A pattern of what somebody may log: its own losses, and members that were stopped."""
        stopped = "|".join(map(str, sorted(self.troubled)))
        told = f"SHOAL-210[37] (Member|Lost contact with member) ({stopped}) "
        return rf"\A(({LOSSES}|{told}).*\n)*\Z"

    def stop_for_a_while(self) -> None:
        """One subscriber stands still while others publish, and goes on; now and then it dies instead."""
        self.freeze(self.stopped)
        until = time.monotonic() + self.random.uniform(0.05, STOPPED_S_MAX)
        while time.monotonic() < until:
            self.publish()
        self.stopped.thaw()
        for source, tally in self.stopped.ask("received", pattern="soak/>")["received"].items():
            wrong = [fault for fault in tally["faults"] if "missing" not in fault]
            assert not wrong, (source, wrong)
        if self.random.random() < 0.3:
            self.kill(self.stopped)
            self.stopped = self.start_visitor()

    def request(self) -> None:
        """A question and its answer."""
        self.asked += 1
        answer = self.publishers[1].ask("request", topic="ask", body=self.asked, timeout_s=60)
        assert answer["body"]["asked"] == self.asked

    def check(self) -> None:
        """Everything published so far is where it belongs."""
        stayed = {peer.node for peer in (*self.publishers, *self.subscribers)}
        for publisher in self.publishers:
            try:
                publisher.ask("flush", timeout_s=60)
            except Failure as failure:
                # Who was stopped or killed a moment ago may be named, and nobody else.
                named = {*failure.answer["silent"], *failure.answer["lost_by"]}
                if not named or named & stayed:
                    raise
        for subscriber in self.subscribers:
            for source, count in self.published.items():
                answer = subscriber.ask("wait_received", pattern="soak/>", source=source, count=count)
                tally = answer["received"][str(source)]
                assert tally["next"] == tally["count"] == count, (source, tally)
                assert tally["faults"] == [], (source, tally)

    def sizes(self) -> list[tuple[int, int, int]]:
        """Memory, threads and descriptors of all who stay."""
        found = []
        for peer in (*self.publishers, *self.subscribers):
            folder = Path(f"/proc/{peer.process.pid}")
            threads, descriptors = (len(list((folder / name).iterdir())) for name in ("task", "fd"))
            found.append((peer.ask("memory")["bytes"], threads, descriptors))
        return found

    def close(self) -> None:
        """End all programs."""
        for peer in self.all:
            peer.kill()


def run(seconds: float, seed: int) -> str:
    """Soak for so long; returns what was done."""
    soak = Soak(seed)
    began, warm, rounds = time.monotonic(), None, 0
    try:
        while time.monotonic() - began < seconds:
            soak.publish()
            soak.request()
            if rounds % 3 == 2:
                soak.disturb()
            if rounds % 5 == 4:
                soak.check()
            rounds += 1
            if warm is None and time.monotonic() - began > min(seconds / 3, 60):
                soak.check()
                warm = soak.sizes()
        soak.check()
        for before, after in zip(warm or [], soak.sizes(), strict=True):
            assert after[0] - before[0] < GROWTH_BYTES_MAX, (before, after)
            assert after[1:] == before[1:], (before, after)
    finally:
        soak.close()
    messages = sum(soak.published.values())
    return f"{rounds} rounds, {messages} messages to each of {len(soak.subscribers)} subscribers, none lost"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    print(run(chosen.seconds, chosen.seed))
