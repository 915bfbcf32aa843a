"""Programs that roam between daemons that are killed under load, and what each of them gets.

    python tests/e2e/roam_clients.py [--clients 50] [--daemons 6] [--kills 100] [--how kill|drain] [--seed N]

One program publishes numbered messages to each of the others, and each of them publishes to it. A daemon
is killed, or drained and ended, every few seconds, and another one started. It prints how many messages were
lost without a loss report, lost with one, and doubled, and the longest silences of the readers. Ends with
status 1 if a message is missing that no report names, or came twice.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import shoal
from shoal.bus.events import MessagesLost
from shoal.link.events import Roamed
from shoal.link.registry_client import RegistryClient

DOMAIN = "roam-clients"
#: Each publisher sends so many messages in a second.
RATE = 20.0
#: Readers have everything that they will get after this.
QUIET_S = 12.0


class Network:
    """A registry, and daemons that come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        log = folder / "registry.log"
        self._registry = self._start(log, "-m", "shoal.cli", "registry", "--listen", "127.0.0.1:0")
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())):
            time.sleep(0.05)
        self.url, self.port = found[0], int(found[1])
        self.client = RegistryClient(self.url, DOMAIN)

    def _start(self, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        with log.open("wb") as out:
            return subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=out)

    def start_daemon(self) -> None:
        """Start one more daemon."""
        self._number += 1
        name = f"d{self._number}"
        file = self._folder / f"{name}.toml"
        file.write_text(
            f"name = '{name}'\ndomain = '{DOMAIN}'\n[link.wan]\nlisten = 'tcp://127.0.0.1:0'\n"
            f"[registry]\nurls = ['{self.url}']\n[connection]\nheartbeat_s = 1.0\n"
        )
        self.daemons[name] = self._start(self._folder / f"{name}.log", "-m", "shoal.daemon", str(file))

    def wait(self) -> None:
        """Wait until clients are sent to every daemon."""
        while True:
            listing = self.client.listing()
            if listing and {each.name for each in listing.records if each.endpoints} >= set(self.daemons):
                return
            time.sleep(0.1)

    def end(self, name: str, how: str) -> None:
        """Kill a daemon, or have it leave."""
        process = self.daemons.pop(name)
        process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
        process.wait(60)

    def close(self) -> None:
        """End everything."""
        for process in (*self.daemons.values(), self._registry):
            process.kill()
            process.wait(10)


class Client:
    """A program: it publishes to `up/NAME`, and reads `down/NAME`; the central one does the opposite."""

    def __init__(self, bus: shoal.aio.Bus, reads: str) -> None:
        self.bus, self._reads = bus, reads
        self.got: dict[str, list[int]] = {}
        self.silence_s: list[float] = []
        self.lost: list[MessagesLost] = []
        self.moves = 0

    async def read(self, began: asyncio.Event) -> None:
        """Read until it is cancelled."""
        last = None
        async with await self.bus.subscribe(self._reads, wait=True) as messages:
            began.set()
            async for message in messages:
                now = time.monotonic()
                if last is not None and now - last > 0.5:
                    self.silence_s.append(now - last)
                last = now
                self.got.setdefault(message.topic, []).append(message.body)

    async def watch(self) -> None:
        """Note what happens to it."""
        async for event in self.bus.events():
            if isinstance(event, MessagesLost):
                self.lost.append(event)
            elif isinstance(event, Roamed):
                self.moves += 1


async def run(options: argparse.Namespace, network: Network, chance: random.Random) -> dict[str, Any]:
    """Connect, publish while daemons end, and count."""
    url = f"locate://127.0.0.1:{network.port}/{DOMAIN}"
    buses = []
    for _ in range(options.clients + 1):
        buses.append(await shoal.aio.connect(url).__aenter__())
        # A registry answers twenty requests of an address in a second.
        await asyncio.sleep(0.06)
    central, *others = (
        Client(bus, "up/*" if number == 0 else f"down/c{number}") for number, bus in enumerate(buses)
    )
    tasks = []
    for each in (central, *others):
        began = asyncio.Event()
        tasks += [asyncio.create_task(each.read(began)), asyncio.create_task(each.watch())]
        await began.wait()
    for number, each in enumerate(others, 1):
        await central.bus.wait_for_subscribers(f"down/c{number}")
        await each.bus.wait_for_subscribers(f"up/c{number}")
    published: Counter[str] = Counter()
    stopped = asyncio.Event()

    async def publish(client: Client, topics: list[str]) -> None:
        while not stopped.is_set():
            for topic in topics:
                await client.bus.publish(topic, published[topic])
                published[topic] += 1
            await asyncio.sleep(1.0 / RATE)

    names = [f"c{number}" for number in range(1, options.clients + 1)]
    writers = [asyncio.create_task(publish(central, [f"down/{name}" for name in names]))]
    writers += [
        asyncio.create_task(publish(each, [f"up/{name}"])) for name, each in zip(names, others, strict=True)
    ]
    ended = 0
    for _ in range(options.kills):
        await asyncio.sleep(options.every)
        await asyncio.to_thread(network.end, chance.choice(list(network.daemons)), options.how)
        network.start_daemon()
        await asyncio.to_thread(network.wait)
        ended += 1
    await asyncio.sleep(options.every)
    stopped.set()
    await asyncio.gather(*writers)
    await asyncio.sleep(QUIET_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    result = judge(published, central, others)
    result["ended"] = ended
    for each in (central, *others):
        await each.bus.close(0)
    return result


def judge(published: Counter[str], central: Client, others: list[Client]) -> dict[str, Any]:
    """What is missing, what was told, what came twice."""
    found: Counter[str] = Counter()
    silences: list[float] = []
    for client in (central, *others):
        silences += client.silence_s
        found["moves"] += client.moves
        missing = 0
        expected = [topic for topic in published if (topic.startswith("up/")) == (client is central)]
        for topic in expected:
            got = client.got.get(topic, [])
            if client is not central and f"down/c{others.index(client) + 1}" != topic:
                continue
            found["doubled"] += len(got) - len(set(got))
            found["disordered"] += sum(one > other for one, other in itertools.pairwise(got))
            missing += published[topic] - len(set(got))
        told = sum(event.last - event.first + 1 for event in client.lost if event.first)
        found["missing"] += missing
        found["silent"] += max(missing - told, 0)
    silences.sort()
    return {
        "published": sum(published.values()),
        **found,
        "silences": len(silences),
        "silence_p95_s": round(silences[int(0.95 * (len(silences) - 1))], 2) if silences else 0.0,
        "silence_max_s": round(silences[-1], 2) if silences else 0.0,
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--daemons", type=int, default=6)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--every", type=float, default=3.0)
    parser.add_argument("--how", choices=("kill", "drain"), default="kill")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = os.environ["XDG_RUNTIME_DIR"] = folder
        network = Network(Path(folder))
        try:
            for _ in range(options.daemons):
                network.start_daemon()
            network.wait()
            result = asyncio.run(run(options, network, random.Random(options.seed)))
        finally:
            network.close()
    print(json.dumps({"seed": options.seed, "how": options.how, **result}), flush=True)
    return 1 if result.get("silent") or result.get("doubled") else 0


if __name__ == "__main__":
    threading.stack_size(512 << 10)
    sys.exit(main())
