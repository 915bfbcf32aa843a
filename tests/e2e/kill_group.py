"""Three stores that keep one log, on three machines of a made-up LAN, and all that goes wrong with them.

    python tests/e2e/kill_group.py --cycles 60 [--seed N] [--out verdict.jsonl]        (make replica-kills)

Each store has a network namespace and a disk of its own. In each cycle one thing happens while a publisher,
an outbox, transactions, a durable subscriber and two workers go on:

| trouble | is |
|---|---|
| kill | `kill -9` of a store, which starts again after a moment |
| stop | a store stands still for up to 4 s |
| cut | the cable of a store is pulled for up to 4 s |
| erase | a store is killed and its disk erased; a new store takes its place (`shoal store group add`) |
| full | the disk of a store is full for a moment; a store that ends of it starts again with room |
| client | `kill -9` of a publisher, subscriber or worker |

In the end everything that was promised must have been read, by the subscriber in order and once, by the
workers once, but for what says that it is delivered again. The history of troubles and the verdict are
written to a file of JSON lines. Needs root; a failure prints the seed.
"""

import argparse
import contextlib
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import lab
from kill_queues import OTHERS, PATIENCE_S, PREFETCH, Notes, Programs, check, needless_marks, read

from shoal.store.founding import NAME as GROUP_FILE
from shoal.store.group_status import STATUS

GROUP = "kills"
#: A small disk, and short segments: so that a full disk is met at once.
DISK_BYTES, SEGMENT_BYTES = 256 << 20, 1 << 20
#: How long a store stands still or is cut off, and a disk is full, at the most.
AWAY_S = 4.0
#: How often each trouble happens.
TROUBLES = {"kill": 6, "stop": 3, "cut": 4, "erase": 2, "full": 2, "client": 4}


class Places(Programs):
    """The programs on their machines; `store-N` runs on machine N, on disk N."""

    def __init__(self, folder: Path, network: lab.Lab) -> None:
        super().__init__(folder, ["store-1", "store-2", "store-3"])
        self.hosts = {f"store-{n}": host for n, host in enumerate(network.hosts[:3], 1)}
        self._home = network.hosts[3]
        #: What each store calls itself: another name with each new disk.
        self.called = {name: name for name in self.hosts}
        for name in self.hosts:
            self.disk(name).mkdir()
            options = ["-o", f"size={DISK_BYTES}", "tmpfs", str(self.disk(name))]
            subprocess.run(["mount", "-t", "tmpfs", *options], check=True)

    def disk(self, name: str) -> Path:
        return self.folder / f"disk-{name}"

    def data(self, name: str) -> Path:
        return self.disk(name) / "data"

    def command(self, name: str) -> list[str]:
        host = self.hosts.get(name, self._home)
        if name not in self.hosts:
            return [*host.prefix, "env", "KILLS_INTERFACE=eth0", *super().command(name)]
        config = self.folder / f"{name}.toml"
        config.write_text(
            f'name = "{self.called[name]}"\ndata = "{self.data(name)}"\nsegment_bytes = {SEGMENT_BYTES}\n'
            f"min_free_bytes = {SEGMENT_BYTES}\nwarn_free_bytes = {SEGMENT_BYTES}\n"
        )
        shoal = [sys.executable, "-m", "shoal.cli", "store", "--config", str(config)]
        options = ["--group", GROUP]
        options += ["--bootstrap", "3"] if name == "store-1" else []
        return [*host.prefix, *shoal, "--domain", self.domain, "--interface", "eth0", *options]

    def is_running(self, name: str) -> bool:
        return self._running[name].poll() is None

    def forget(self, name: str) -> None:
        """A program ended by itself."""
        self._running.pop(name).wait()

    def state(self, name: str) -> dict[str, Any]:
        """What the store's process said last; nothing if it has not said anything yet."""
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((self.data(name) / STATUS).read_text())
            if found["pid"] == self._running[name].pid or name in self.hosts:
                return dict(found)
        return {}

    def wait_for_owner(self) -> str:
        """Which store owns the group."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for name in self.hosts:
                found = self.state(name)
                if found.get("state") == "owner" and time.time() - found["at"] < 2.0:
                    return name
            time.sleep(0.1)
        raise AssertionError("no store owns the group")

    def replace(self, name: str) -> None:
        """A disk is lost: a store with an empty one takes its place."""
        old = f"{json.loads((self.data(name) / GROUP_FILE).read_text())['member']:016x}"
        self.kill(name)
        shutil.rmtree(self.data(name))
        number = int(self.called[name].partition(".")[2] or 0)
        self.called[name] = f"{name}.{number + 1}"
        self.start(name)
        until = time.monotonic() + PATIENCE_S
        while True:
            at = next(each for each in self.hosts if each != name)
            command = [*self.hosts[at].prefix, sys.executable, "-m", "shoal.cli", "store", "group", "add"]
            command += [self.called[name], "--replace", old, "--data", str(self.data(at))]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
            if done.returncode == 0:
                return
            assert time.monotonic() < until, f"{self.called[name]} cannot join: {done.stderr}"
            time.sleep(0.5)

    def fill(self, name: str, seconds: float) -> bool:
        """The disk of a store is full for a while; whether the store ended of it."""
        hog = self.disk(name) / "hog"
        left = os.statvfs(self.disk(name))
        with hog.open("wb") as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, left.f_bavail * left.f_bsize)
        time.sleep(seconds)
        hog.unlink()
        if self.is_running(name):
            return False
        self.forget(name)
        self.start(name)
        return True

    def close(self) -> None:
        self.stop()
        for name in self.hosts:
            subprocess.run(["umount", "-l", str(self.disk(name))], check=False)


def trouble(places: Places, dice: random.Random) -> dict[str, Any]:
    """Let one thing happen; what it was."""
    kind = dice.choices(list(TROUBLES), list(TROUBLES.values()))[0]
    # Every other trouble is the owner's.
    name = places.wait_for_owner() if dice.random() < 0.5 else dice.choice(list(places.hosts))
    seconds = round(dice.random() * AWAY_S, 2)
    told: dict[str, Any] = {"trouble": kind, "store": places.called[name], "seconds": seconds}
    match kind:
        case "kill":
            places.kill(name)
            time.sleep(seconds / 4)
            places.start(name)
        case "stop":
            places.hold(name, seconds)
        case "cut":
            places.hosts[name].cut()
            time.sleep(seconds)
            places.hosts[name].mend()
        case "erase":
            places.replace(name)
            told["by"] = places.called[name]
        case "full":
            told["ended"] = places.fill(name, seconds)
        case _:
            client = dice.choice(OTHERS)
            places.kill(client)
            time.sleep(seconds / 4)
            places.start(client)
            told = {"trouble": kind, "client": client}
    return told


def run(
    cycles: int, out: Path, seed: int | None = None, pause_s: float = 2.0, *, keep: bool = False
) -> dict[str, Any]:
    """So many troubles; the verdict."""
    seed = secrets.randbits(32) if seed is None else seed
    dice, began = random.Random(seed), time.time()
    history = Notes(out)
    history.add(begins=began, seed=seed, cycles=cycles)
    counts: Counter[str] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="shoal-group-"))
    network = lab.Lab(4)
    places = Places(folder, network)
    try:
        places.begin()
        for cycle in range(cycles):
            time.sleep(dice.random() * pause_s)
            at = time.time()
            told = trouble(places, dice)
            counts[told.get("client") or told["trouble"]] += 1
            history.add(cycle=cycle, at=at, took_s=round(time.time() - at, 2), **told)
            for name in places.hosts:
                assert places.is_running(name), f"{name} ended by itself: {places.log(name)}"
        places.finish()
        promised = sum(
            "promised" in line for who in ("publisher", "boxed") for line in read(folder / f"{who}.notes")
        )
        received = sum("number" in line for who in PREFETCH for line in read(folder / f"{who}.notes"))
        verdict = {
            "verdict": "nothing is lost",
            "promised": promised,
            "received": received,
            "marked_without_need": needless_marks(folder),
            "troubles": dict(counts),
            "took_s": round(time.time() - began, 1),
        }
        history.add(**verdict)
        return verdict
    except AssertionError as error:
        missing = []
        with contextlib.suppress(AssertionError):
            missing = check(folder)
        history.add(verdict="failed", why=str(error)[:2000], missing=missing[:20])
        raise AssertionError(f"--seed {seed}: {error}\n{places.tell()}") from error
    finally:
        places.close()
        network.close()
        if keep:
            print(f"what programs said is in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--pause-s", type=float, default=2.0, help="between two troubles, at most")
    parser.add_argument("--out", type=Path, default=Path("replica-kills.jsonl"), help="history and verdict")
    parser.add_argument("--keep", action="store_true", help="keep what programs said")
    options = parser.parse_args()
    why = lab.problem()
    if why is not None:
        parser.error(why)
    print(json.dumps(run(options.cycles, options.out, options.seed, options.pause_s, keep=options.keep)))


if __name__ == "__main__":
    main()
