"""The part of `shoal demo` in which programs are killed: a durable subscriber, and a worker of a queue."""

import contextlib
import logging
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape

import shoal
from shoal.cli.progress import Tell

MESSAGES = 4000
TOPIC, QUEUE = "demo/numbers", "demo"
PATIENCE_S = 60.0
#: A worker has this many messages ahead, which its death gives back.
PREFETCH = 50


class Reader:
    """A program that reads, and says line by line what it got."""

    def __init__(self, role: str, domain: str) -> None:
        code = f"from shoal.cli.demo_store import be, {role}; be({role}, {domain!r})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        #: Each number, and whether it was said to be delivered again.
        self.got: list[tuple[int, bool]] = []
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.ready.set()
            number, _, again = line.strip().partition(" ")
            if number.isdigit():
                self.got.append((int(number), again == "again"))

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.wait()
        self._thread.join()


def run(console: Console, tell: Tell) -> bool:
    """Kill readers in the middle, and count what the others and their successors got."""
    from shoal.processes.store import StoreProcess

    readers: list[Reader] = []
    try:
        with (
            tempfile.TemporaryDirectory(prefix="shoal-demo-") as place,
            StoreProcess(
                Path(place) / "store",
                record="demo-nothing",
                domain=f"demo-{secrets.token_hex(4)}",
                flight=False,
            ) as store,
        ):
            return _kill_readers(console, store.domain, readers, tell)
    except (shoal.ShoalError, OSError) as error:
        console.print(f"  [red]failed:[/red] {escape(str(error))}", highlight=False)
        return False
    finally:
        for reader in readers:
            reader.kill()


def _kill_readers(console: Console, domain: str, readers: list[Reader], tell: Tell) -> bool:
    def start(role: str) -> Reader:
        reader = Reader(role, domain)
        readers.append(reader)
        if not reader.ready.wait(PATIENCE_S):
            raise shoal.ShoalError(f"the {role} did not come up")
        return reader

    subscriber, mortal, survivor = start("subscriber"), start("worker"), start("worker")
    with shoal.connect(interface="lo", domain=domain) as bus:
        queue = bus.queue(QUEUE)
        for number in range(MESSAGES):
            tell(
                f"  {number:,} of {MESSAGES:,} messages stored, programs are killed half way",
                number / MESSAGES,
            )
            if number == MESSAGES // 2:
                subscriber.kill()
                mortal.kill()
            bus.publish(TOPIC, number, persistent=True, window=100)
            queue.send(number, window=100)
        tell("  their successors read", None)
        # The store has everything; those that were killed do not answer.
        with contextlib.suppress(shoal.FlushError):
            bus.flush(PATIENCE_S)
        bus.close(0.0)
    successor = start("subscriber")
    _wait(lambda: len({number for number, _ in subscriber.got + successor.got}) >= MESSAGES)
    _wait(lambda: len({number for number, _ in mortal.got + survivor.got}) >= MESSAGES)
    told = _verdict("the subscriber", [subscriber, successor]) or _verdict("the workers", [mortal, survivor])
    if told is not None:
        console.print(f"  [red]failed:[/red] {told}", highlight=False)
        return False
    console.print(
        f"  {MESSAGES:,} messages for a subscriber, killed after {len(subscriber.got):,}, started again: "
        f"[green]nothing lost[/green], {_again([successor])} delivered again",
        highlight=False,
    )
    console.print(
        f"  {MESSAGES:,} jobs for two workers, one killed after {len(mortal.got):,}: "
        f"[green]every job done[/green], {_again([survivor])} delivered again",
        highlight=False,
    )
    return True


def _wait(over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not over():
        time.sleep(0.02)


def _again(readers: list[Reader]) -> int:
    return sum(again for reader in readers for _, again in reader.got)


def _verdict(who: str, readers: list[Reader]) -> str | None:
    """What is wrong, if anything is: something is missing, or came twice and was not said to."""
    seen: set[int] = set()
    for number, again in (one for reader in readers for one in reader.got):
        if number in seen and not again:
            return f"{who} got {number} twice, and was not told"
        seen.add(number)
    missing = MESSAGES - len(seen)
    return f"{who} lacks {missing} messages" if missing else None


def be(role: Callable[[str], None], domain: str) -> None:
    """Be one of the readers; on a busy machine the store may be heard of late."""
    logging.getLogger("shoal").setLevel(logging.ERROR)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(shoal.NoStoreError):
            role(domain)
            return


def subscriber(domain: str) -> None:
    """Be the durable subscriber: print every number."""
    with (
        shoal.connect(interface="lo", domain=domain, client_id="demo") as bus,
        bus.subscribe(TOPIC, durable="demo", prefetch=PREFETCH) as subscription,
    ):
        _print_all(subscription)


def worker(domain: str) -> None:
    """Be a worker: print every number."""
    with (
        shoal.connect(interface="lo", domain=domain) as bus,
        bus.queue(QUEUE).consume(prefetch=PREFETCH) as consumer,
    ):
        _print_all(consumer)


def _print_all(consumer: shoal.Consumer) -> None:
    print("ready", flush=True)
    for message in consumer:
        print(message.body, "again" if message.redelivered else "", flush=True)
