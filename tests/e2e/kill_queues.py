"""Kills publishers, a store, a durable subscriber and workers again and again, as `kill -9` does.

    python tests/e2e/kill_queues.py --cycles 200

With `--group` three stores keep one log, and each of them is killed, or stopped for a while.

Every process writes down what it knows: publishers what they were promised, readers what they got. In the end
everything that was promised must have been read, by the subscriber in order and once, by the workers once,
except what says that it is delivered again. Only what was ready for a killed reader says so without need. A
failure prints the seed.
"""

import argparse
import contextlib
import faulthandler
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shoal
import shoal.cli

#: Everything is read within this time, also on a busy machine.
PATIENCE_S = 80.0
#: How long a program that hangs has to say where.
STACKS_S = 1.0
#: So much of a program's log is shown when something failed.
LOG_CHARS = 20_000
TOPIC, QUEUE = "kills/numbers", "kills"
#: Messages that are ready for a subscriber or worker, at the most.
PREFETCH = {"subscriber": 50, "worker-1": 20, "worker-2": 20}
#: A store alone, or the members of a group.
ALONE, GROUP = ["store"], ["store-1", "store-2", "store-3"]
OTHERS = ["subscriber", "worker-1", "worker-2", "publisher", "boxed"]
#: How long a member of a group stands still at the most: others own the group meanwhile.
STILL_S = 4.0
#: Where programs of a run are: its network interface.
INTERFACE = os.environ.get("KILLS_INTERFACE", "lo")


class Notes:
    """A file of JSON lines that survives the process that writes it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, **what: Any) -> None:
        os.write(self._file, json.dumps(what).encode() + b"\n")


def read(path: Path) -> list[dict[str, Any]]:
    """What a process wrote down; the last line may have been cut off."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that happens on a busy machine, too."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


# --- the processes ---


def publisher(folder: Path, domain: str, boxed: bool) -> None:
    """Publish numbers to the topic and into the queue, and write down what is promised."""
    path = folder / ("boxed.notes" if boxed else "publisher.notes")
    number = max((line["tried"] for line in read(path) if "tried" in line), default=0)
    notes = Notes(path)
    options = {"outbox": folder / "outbox"} if boxed else {}
    who = "boxed" if boxed else "publisher"
    with shoal.connect(domain=domain, interface=INTERFACE, **options) as bus:
        queue = bus.queue(QUEUE)
        while not (folder / "enough").exists():
            number += 1
            notes.add(tried=number)
            body = {"who": who, "number": number}
            try:
                if number % 10 == 0 and not boxed:
                    with bus.transaction(f"{who}-{number}") as tx:
                        tx.publish(TOPIC, body)
                        tx.send(QUEUE, body)
                else:
                    bus.publish(TOPIC, body, persistent=True)
                    queue.send(body)
            except shoal.StoreFullError:
                # Nothing is promised of it.
                time.sleep(0.1)
                continue
            notes.add(promised=number)
            time.sleep(0.0005)
        if boxed:
            # Not `flush`, which names members that were killed.
            bus._connection.flush_persistent(PATIENCE_S)
    notes.add(over=True)


def subscriber(folder: Path, domain: str) -> None:
    """Read the durable subscription."""
    notes = Notes(folder / "subscriber.notes")
    with (
        shoal.connect(domain=domain, interface=INTERFACE, client_id="kills") as bus,
        bus.subscribe(TOPIC, durable="kills", prefetch=PREFETCH["subscriber"]) as subscription,
    ):
        notes.add(began=True)
        for message in subscription:
            notes.add(**message.body, again=message.redelivered)


def worker(folder: Path, domain: str, name: str) -> None:
    """Take from the queue."""
    notes = Notes(folder / f"{name}.notes")
    with (
        shoal.connect(domain=domain, interface=INTERFACE) as bus,
        bus.queue(QUEUE).consume(prefetch=PREFETCH[name]) as consumer,
    ):
        notes.add(began=True)
        for message in consumer:
            notes.add(**message.body, again=message.redelivered)
            time.sleep(0.01 if (folder / "slowly").exists() else 0.0)


def be(name: str, folder: Path, domain: str) -> None:
    """Be one of them; while the store is dead, nobody is there to begin with."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if name.startswith("store"):
        data = folder / name.replace("store", "data")
        sys.argv = ["shoal", "store", "--data", str(data), "--domain", domain, "--interface", INTERFACE]
        if name != "store":
            sys.argv += ["--group", "kills", "--name", name]
            sys.argv += ["--bootstrap", "3"] if name == GROUP[0] else []
        shoal.cli.main()
        return
    while True:
        with contextlib.suppress(shoal.NoStoreError):
            if name in ("publisher", "boxed"):
                publisher(folder, domain, name == "boxed")
            elif name == "subscriber":
                subscriber(folder, domain)
            else:
                worker(folder, domain, name)
            return


# --- whoever kills ---


class Programs:
    """The processes, each of which can be killed and started again."""

    def __init__(self, folder: Path, stores: list[str] = ALONE) -> None:
        self.folder, self.domain, self._stores = folder, f"kills-{secrets.token_hex(4)}", stores
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self) -> None:
        """Start them all."""
        for name in (*self._stores, *OTHERS):
            self.start(name)
            if name == "subscriber":
                # What was published before it began to be kept is not its.
                self.wait_for("subscriber", "began")
        for name in ("publisher", "boxed"):
            self.wait_for(name, "promised")

    def command(self, name: str) -> list[str]:
        """What starts a program."""
        options = ["--be", name, "--folder", str(self.folder), "--domain", self.domain]
        return [sys.executable, __file__, *options]

    def start(self, name: str) -> None:
        command = self.command(name)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        assert process.poll() is None, f"{name} ended by itself, before it was killed: {self.log(name)}"
        process.send_signal(signal.SIGKILL)
        process.wait()

    def hold(self, name: str, seconds: float) -> None:
        """Let a program stand still for a while."""
        self._running[name].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._running[name].send_signal(signal.SIGCONT)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-2000:]

    def tell(self) -> str:
        """What every program says, and where each of its threads is, for whoever looks into a failure."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)
        time.sleep(STACKS_S)
        told = []
        for path in sorted(self.folder.glob("*.log")):
            process = self._running.get(path.stem)
            state = "not running" if process is None else f"exit status {process.poll()}"
            told.append(f"--- {path.stem} ({state})\n{path.read_text()[-LOG_CHARS:]}")
        told += [f"--- {path}\n{path.read_text()}" for path in sorted(self.folder.glob("data*/*status.json"))]
        return "\n".join(told)

    def wait_for(self, name: str, what: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not any(what in line for line in read(self.folder / f"{name}.notes")):
            assert time.monotonic() < until, f"{name} has not {what}: {self.log(name)}"
            time.sleep(0.02)

    def finish(self) -> None:
        """Let publishers end, and readers have everything."""
        (self.folder / "enough").touch()
        until = time.monotonic() + PATIENCE_S
        for name in ("publisher", "boxed"):
            try:
                status = self._running[name].wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{name} does not end") from None
            assert status == 0, f"{name} failed"
            del self._running[name]
        while missing := check(self.folder):
            for name, process in self._running.items():
                assert process.poll() is None, f"{name} ended by itself"
            assert time.monotonic() < until, f"not everything was read: {missing[:5]} of {len(missing)}"
            time.sleep(0.2)

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


def check(folder: Path) -> list[str]:
    """What is missing. What is there and must not be raises."""
    promised = {
        (who, line["promised"])
        for who in ("publisher", "boxed")
        for line in read(folder / f"{who}.notes")
        if "promised" in line
    }
    tried = {
        (who, line["tried"])
        for who in ("publisher", "boxed")
        for line in read(folder / f"{who}.notes")
        if "tried" in line
    }
    missing = []
    for readers in (["subscriber"], ["worker-1", "worker-2"]):
        seen: set[tuple[str, int]] = set()
        # What says that it is delivered again may be written down by another worker, earlier in this loop.
        fresh: set[tuple[str, int]] = set()
        for reader in readers:
            highest = {"publisher": 0, "boxed": 0}
            for line in read(folder / f"{reader}.notes"):
                if "number" not in line:
                    continue
                key = (line["who"], line["number"])
                assert key in tried, f"{reader} got {key}, which nobody sent"
                if not line["again"]:
                    assert key not in fresh, f"{reader} got {key} twice, and was not told so"
                    fresh.add(key)
                    if reader == "subscriber":
                        assert line["number"] > highest[line["who"]], f"{reader} got {key} out of order"
                highest[line["who"]] = max(highest[line["who"]], line["number"])
                seen.add(key)
        missing += [f"{readers[0]} lacks {key}" for key in sorted(promised - seen)]
    return missing


def needless_marks(folder: Path) -> int:
    """How many messages say that they are delivered again, though no program had received them."""
    needless = 0
    for readers in (["subscriber"], ["worker-1", "worker-2"]):
        lines = [line for reader in readers for line in read(folder / f"{reader}.notes") if "number" in line]
        received = Counter((line["who"], line["number"]) for line in lines)
        needless += sum(line["again"] and received[line["who"], line["number"]] == 1 for line in lines)
    return needless


def run(
    cycles: int, patience_s: float = 1.0, seed: int | None = None, *, stores: list[str] = ALONE
) -> tuple[int, dict[str, int]]:
    """Kill so many processes; how many messages were promised, and how often who was killed."""
    seed = secrets.randbits(32) if seed is None else seed
    dice = random.Random(seed)
    killed: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="shoal-kills-") as made:
        programs = Programs(Path(made), stores)
        try:
            programs.begin()
            for _ in range(cycles):
                time.sleep(dice.random() * patience_s)
                name = dice.choice([*stores, *OTHERS])
                if name in GROUP and dice.random() < 0.3:
                    programs.hold(name, dice.random() * STILL_S)
                    killed[f"{name} stopped"] = killed.get(f"{name} stopped", 0) + 1
                    continue
                programs.kill(name)
                killed[name] = killed.get(name, 0) + 1
                time.sleep(dice.random() * patience_s / 4)
                programs.start(name)
            programs.finish()
            # Those may be marked that were ready for a program which was killed.
            most = sum(killed.get(name, 0) * prefetch for name, prefetch in PREFETCH.items())
            needless = needless_marks(Path(made))
            assert needless <= most, f"{needless} messages are marked that no program had received"
            killed["marked without need"] = needless
            notes = [read(Path(made) / f"{who}.notes") for who in ("publisher", "boxed")]
            return sum("promised" in line for lines in notes for line in lines), killed
        except AssertionError as error:
            raise AssertionError(f"--seed {seed}: {error}\n{programs.tell()}") from error
        finally:
            programs.stop()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--patience-s", type=float, default=1.0, help="how long nobody is killed, at most")
    parser.add_argument("--group", action="store_true", help="three stores keep one log")
    parser.add_argument("--be")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--domain")
    options = parser.parse_args()
    match options.be:
        case None:
            began = time.monotonic()
            messages, killed = run(
                options.cycles, options.patience_s, options.seed, stores=GROUP if options.group else ALONE
            )
            took_s = time.monotonic() - began
            print(f"{options.cycles} kills {killed}, {messages} messages, none lost, {took_s:.0f} s")
        case name:
            be(name, options.folder, options.domain)


if __name__ == "__main__":
    main()
