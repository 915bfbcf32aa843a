"""The part of `shoal demo` with the public API: one publisher, three subscribers, a process for each."""

import logging
import secrets
import subprocess
import sys
import threading
import time

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

import shoal
from shoal.cli.progress import Tell

SUBSCRIBERS = 3
MESSAGES = 1_000_000
BODY_BYTES = 64
TOPIC = "demo/ticks"
REPORT_S = 0.1
PATIENCE_S = 30.0


class _Rate(TextColumn):
    """Messages per second so far."""

    def render(self, task: "object") -> Text:
        speed = getattr(task, "finished_speed", None) or getattr(task, "speed", None) or 0.0
        return Text(f"{speed / 1e6:.2f} M msg/s")


def run(console: Console, tell: Tell) -> bool:
    """Publish to three processes, show how each gets on, and tell whether each got everything in order."""
    domain = f"demo-{secrets.token_hex(4)}"
    subscriber = f"from shoal.cli.demo_bus import subscribe; subscribe({domain!r})"
    command = [sys.executable, "-c", subscriber]
    readers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        for _ in range(SUBSCRIBERS)
    ]
    verdicts: list[str] = [""] * SUBSCRIBERS
    try:
        columns = TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), _Rate("")
        with Progress(*columns, console=console) as progress:
            watchers = []
            for at, reader in enumerate(readers):
                bar = progress.add_task(f"subscriber {at + 1}", total=MESSAGES)
                watcher = threading.Thread(target=_watch, args=(reader, progress, bar, verdicts, at, tell))
                watcher.start()
                watchers.append(watcher)
            _publish(domain)
            for watcher in watchers:
                watcher.join(PATIENCE_S)
    except shoal.ShoalError as error:
        console.print(f"  [red]failed:[/red] {escape(str(error))}", highlight=False)
        return False
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    wrong = [verdict for verdict in verdicts if verdict != "ok"]
    if wrong:
        console.print(f"  [red]failed:[/red] {wrong[0] or 'a subscriber did not finish'}", highlight=False)
        return False
    console.print(
        f"  {MESSAGES:,} messages of {BODY_BYTES} bytes, published once, read by {SUBSCRIBERS} programs: "
        "[green]nothing lost, order kept[/green]",
        highlight=False,
    )
    return True


def _watch(
    reader: "subprocess.Popen[str]",
    progress: Progress,
    bar: TaskID,
    verdicts: list[str],
    at: int,
    tell: Tell,
) -> None:
    assert reader.stdout is not None
    for line in reader.stdout:
        if line.strip().isdigit():
            progress.update(bar, completed=int(line))
            slowest = min(int(task.completed) for task in progress.tasks)
            tell(f"  {slowest:,} of {MESSAGES:,} messages at every subscriber", slowest / MESSAGES)
        else:
            verdicts[at] = line.strip()


def _publish(domain: str) -> None:
    # On a busy machine a subscriber may be stopped until its buffers overflow: it is waited for.
    with shoal.connect(interface="lo", domain=domain, when_slow="wait") as bus:
        if not bus.wait_for_subscribers(TOPIC, SUBSCRIBERS, timeout_s=PATIENCE_S):
            raise shoal.ShoalError("the subscribers did not come up")
        padding = bytes(BODY_BYTES - 8)
        for number in range(MESSAGES):
            bus.publish(TOPIC, number.to_bytes(8, "big") + padding)
        bus.flush(PATIENCE_S)


def subscribe(domain: str) -> None:
    """Be one subscriber: print how many messages are here, line by line, and then `ok`, or what is wrong."""
    logging.getLogger("shoal").setLevel(logging.ERROR)
    print(_read_all(domain), flush=True)


def _read_all(domain: str) -> str:
    with shoal.connect(interface="lo", domain=domain) as bus, bus.subscribe(TOPIC) as subscription:
        next_report = 0.0
        for expected in range(MESSAGES):
            message = subscription.receive(PATIENCE_S)
            if message is None:
                return f"nothing came after message {expected}"
            if message.body[:8] != expected.to_bytes(8, "big"):
                return f"message {expected} came out wrong or out of order"
            if expected % 1000 == 0 and time.monotonic() >= next_report:
                next_report = time.monotonic() + REPORT_S
                print(expected, flush=True)
        print(MESSAGES, flush=True)
        return "ok"
