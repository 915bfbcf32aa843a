"""Three sites in a line, whose stores are killed and whose links are cut: each message arrives once.

`python tests/e2e/kill_forwarding.py 50` kills or cuts fifty times. Publishers have outboxes; what they sent
is compared with what lies in the log of the last store.
"""

import contextlib
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import shoal
from shoal._core import Log
from shoal.store.status import read_status
from shoal.testing import rows

PATIENCE_S = 90.0


class Relay:
    """A link that can be cut: what comes to its port goes to another one."""

    def __init__(self, to: int) -> None:
        self._to, self._is_cut = to, False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self._to), 2.0)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                self._open |= {near, far}
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        for each in (source, sink):
            self._open.discard(each)
            each.close()

    def cut(self) -> None:
        """Break every connection, and let none through."""
        self._is_cut = True
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    def close(self) -> None:
        """End it."""
        self.cut()
        self._listener.close()


class Site:
    """A store in a process of its own, which is started again where it was."""

    def __init__(self, directory: Path, name: str, forward: str = "") -> None:
        self.name, self.data = name, directory / name
        self.domain = f"{name}-{secrets.token_hex(4)}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        #: What its lives wrote to stderr.
        self.said = directory / f"{name}.log"
        self.config = directory / f"{name}.toml"
        self.config.write_text(
            f'data = "{name}"\nname = "{name}"\nlisten = "127.0.0.1:{self.port}"\nsegment_bytes = 4194304\n'
            f"min_free_bytes = 0\nwarn_free_bytes = 0\n{forward}\n"
            f'[connection]\nurl = "inproc://{self.domain}"\n'
        )
        self.start()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it runs."""
        self.said.touch()
        before = self.said.stat().st_size
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "shoal.cli", "store", "--config", str(self.config)],
                stderr=said,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        deadline = time.monotonic() + PATIENCE_S
        while "shoal store: " not in (text := self.said.read_text()[before:]):
            assert self.process.poll() is None, f"{self.name} did not start: {text}"
            assert time.monotonic() < deadline, f"{self.name} does not start: {text}"
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it, and start it again."""
        self.process.kill()
        self.process.wait()
        self.start()

    def stop(self) -> None:
        """End it in an orderly way."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)

    def bodies(self) -> list[str]:
        """What lies in its log, once it is stopped."""
        log = Log(self.data, store_id=1, incarnation=bytes(16), segment_bytes=4 << 20)
        try:
            found = log.rows(0, log.end, ["orders/>", "_queue/jobs"], rows_max=1 << 30)
            return [rows.body_of(row[-1]).decode() for row in found]
        finally:
            log.close()


def rule(to: Relay, domain: str, release: str) -> str:
    """The table of a rule."""
    return (
        f'[[forward]]\nname = "on"\npatterns = ["orders/>", "_queue/jobs"]\nto = "tcp://127.0.0.1:{to.port}"\n'
        f'domain = "{domain}"\nrelease = "{release}"'
    )


class Abrupt:
    """Closes a connection that waits for nothing: its outbox keeps what no store has."""

    def __init__(self, bus: shoal.Bus) -> None:
        self._bus = bus

    def close(self) -> None:
        """Close it now."""
        self._bus.close(0.0)


class Publishing(threading.Thread):
    """A program with an outbox, which publishes until it is told to stop, and roams if it has two stores."""

    def __init__(self, directory: Path, name: str, sites: list[Site], seed: int) -> None:
        super().__init__(daemon=True)
        self._outbox, self._name, self._sites = directory / name, name, sites
        self._random, self.over = random.Random(seed), threading.Event()
        self.sent: list[str] = []
        self.pairs: list[tuple[str, str]] = []

    def run(self) -> None:
        """Publish, in one life after the other."""
        while not self.over.is_set():
            site = self._random.choice(self._sites)
            bus = shoal.connect(f"inproc://{site.domain}", store=site.url, outbox=self._outbox)
            with contextlib.closing(Abrupt(bus)):
                until = time.monotonic() + 3.0
                while not self.over.is_set() and time.monotonic() < until:
                    for _ in range(20):
                        self._send(bus)
                    time.sleep(0.01)

    def _send(self, bus: shoal.Bus) -> None:
        body = f"{self._name}-{len(self.sent)}"
        if len(self.sent) % 2:
            bus.publish("orders/1", body, persistent=True)
        else:
            bus.queue("jobs").send(body)
        self.sent.append(body)


@contextlib.contextmanager
def line(directory: Path, release: str) -> Iterator[tuple[list[Site], list[Relay]]]:
    """Three stores, each of which forwards to the next one."""
    hq = Site(directory, "hq")
    to_hq = Relay(hq.port)
    middle = Site(directory, "middle", rule(to_hq, hq.domain, "stored"))
    to_middle = Relay(middle.port)
    branch = Site(directory, "branch", rule(to_middle, middle.domain, release))
    sites, relays = [branch, middle, hq], [to_middle, to_hq]
    try:
        yield sites, relays
    finally:
        for relay in relays:
            relay.close()
        for site in sites:
            site.process.kill()
            site.process.wait()


def drained(sites: list[Site], sent: int) -> bool:
    """Whether the first two stores wait for nothing, and the last has everything."""
    waiting = [read_status(site.data)["forwards"][0]["messages"] for site in sites[:2]]
    return not any(waiting) and read_status(sites[2].data)["end"] >= sent


def run(faults: int, seed: int, *, release: str = "stored") -> int:
    """Kill and cut so often; how many messages arrived, each once."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as made, line(Path(made), release) as (sites, relays):
        publishers = [
            Publishing(Path(made), "still", sites[:1], seed),
            Publishing(Path(made), "roaming", [sites[0], sites[2]], seed + 1),
        ]
        for publisher in publishers:
            publisher.start()
        for _ in range(faults):
            if dice.random() < 0.5:
                dice.choice(sites).kill()
            else:
                relay = dice.choice(relays)
                relay.cut()
                time.sleep(dice.uniform(0.1, 1.5))
                relay.mend()
            time.sleep(dice.uniform(0.0, 0.5))
        for publisher in publishers:
            publisher.over.set()
            publisher.join(PATIENCE_S)
        # What is left in the outboxes goes out.
        for publisher, site in zip(publishers, (sites[0], sites[0]), strict=True):
            outbox = Path(made) / publisher._name
            with shoal.connect(f"inproc://{site.domain}", store=site.url, outbox=outbox) as bus:
                bus.flush(PATIENCE_S)
        assert all(publisher.sent for publisher in publishers)
        sent = [body for publisher in publishers for body in publisher.sent]
        deadline = time.monotonic() + PATIENCE_S
        while not drained(sites, len(sent)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for site in sites:
            site.stop()
        arrived = Counter(sites[2].bodies())
        lost = [body for body in sent if not arrived[body]]
        twice = [body for body, count in arrived.items() if count > 1]
        said = "".join(site.said.read_text()[-1000:] for site in sites[:2])
        assert not lost, f"seed {seed}: {len(lost)} of {len(sent)} lost, such as {lost[:5]}; {said}"
        assert not twice, f"seed {seed}: {len(twice)} came twice, such as {twice[:5]}"
        return len(sent)


if __name__ == "__main__":
    for at in range(max(1, int(sys.argv[1]) // 10)):
        chosen = secrets.randbits(32) if len(sys.argv) < 3 else int(sys.argv[2]) + at
        how = ("stored", "passed")[at % 2]
        print(f"seed {chosen}, {how}: {run(10, chosen, release=how)} messages arrived once", flush=True)
