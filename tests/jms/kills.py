"""Kills a store, a producer and a consumer of JMS again and again, and checks what they saw.

    python tests/jms/kills.py --cycles 50

Each process notes what it does, one line of JSON for each step. In the end a checker reads the notes:

- 7.7, persistent: what a producer was promised was received. A message comes again only if its consumer did
  not get through `acknowledge`, and is marked then (3.4.7, 3.5.11).
- 7.7, not persistent: a message comes at most once; marked, again to a consumer that was killed.
- 7.9: no message comes before its delivery time. 3.4.9, 3.4.13: none of a transaction comes after it expired,
  counted from `send`. A transaction is all or nothing (6.2.7).
- 8.3.3: a durable subscription is not shared, whatever was killed.
- 6.2.2: the requests of a connection that lives are answered at its temporary queue.
- 6.1.5: no listener is called while its connection is stopped.

A failure prints the seed.
"""

import argparse
import contextlib
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from shoal import jms

PATIENCE_S = 90.0
HERE = Path(__file__).parent
WORK, FAST, HEARD, ASKED = (jms.Queue(name) for name in ("work", "fast", "heard", "asked"))
LATE = jms.Topic("late/prices")
DELAY_S, TTL_S = 0.3, 3.0
#: A message expires by the wall's clock, which may be set, and a process may stand still before it reads it.
SLACK_S = 1.0
ROLES = ("producer", "consumer", "asker")
Note = dict[str, Any]


class Notes:
    """What a process did, where others find it when it is killed.

    All processes of a machine share the clock of `time.monotonic`, and nobody sets it.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def __call__(self, what: str, **fields: Any) -> None:
        self._file.write(json.dumps({"what": what, "at": time.monotonic(), **fields}) + "\n")


def produce(factory: jms.ConnectionFactory, notes: Notes) -> None:
    """Send, one after the other, until killed or told to end."""
    life = secrets.token_hex(4)
    with factory.create_context() as plain, factory.create_context(jms.Session.SESSION_TRANSACTED) as whole:
        fast = plain.create_producer().set_delivery_mode(jms.DeliveryMode.NON_PERSISTENT)
        late = plain.create_producer().set_delivery_delay_s(DELAY_S)
        lasting, brief = whole.create_producer(), whole.create_producer().set_time_to_live_s(TTL_S)
        for number in range(1_000_000):
            name = f"{life}-{number}"
            plain.create_producer().send(WORK, name)
            notes("sent", name=name)
            fast.send(FAST, name)
            plain.create_producer().send(HEARD, name)
            notes("late", name=name)
            late.send(LATE, name)
            for part in range(3):
                lasting.send(WORK, f"{name}/{part}")
            brief.send(FAST, f"{name}/brief")
            with contextlib.suppress(jms.TransactionRolledBackError):
                whole.commit()
                notes("committed", name=name)
            time.sleep(0.01)


def note_got(notes: Notes, queue: str, message: jms.Message) -> None:
    left_s = message.jms_expiration / 1000 - time.time()
    notes(
        "got",
        queue=queue,
        name=message.body,
        again=message.jms_redelivered,
        count=message.get_int_property("JMSXDeliveryCount"),
        expires=time.monotonic() + left_s if message.jms_expiration else 0.0,
    )


def consume(factory: jms.ConnectionFactory, notes: Notes) -> None:
    """Receive in several ways until killed or told to end."""
    with factory.create_connection() as connection:
        connection.client_id = "desk"
        connection.start()
        threads = [
            threading.Thread(target=each, args=(connection, notes), daemon=True)
            for each in (consume_work, consume_fast, consume_late, answer)
        ]
        for thread in threads:
            thread.start()
        listen(factory, notes)


def consume_work(connection: jms.Connection, notes: Notes) -> None:
    session = connection.create_session(jms.Session.CLIENT_ACKNOWLEDGE)
    consumer = session.create_consumer(WORK)
    while True:
        message = consumer.receive()
        assert message is not None
        note_got(notes, "work", message)
        try:
            message.acknowledge()
            notes("acknowledged", name=message.body)
        except jms.JMSError:
            notes("unknown", name=message.body)


def consume_fast(connection: jms.Connection, notes: Notes) -> None:
    """Now and then with another consumer, also while the store is away."""
    while True:
        with connection.create_session() as session, session.create_consumer(FAST) as consumer:
            for _ in range(20):
                if (message := consumer.receive(timeout_s=0.2)) is not None:
                    note_got(notes, "fast", message)


def consume_late(connection: jms.Connection, notes: Notes) -> None:
    session = connection.create_session()
    consumer = session.create_durable_consumer(LATE, "late")
    try:
        session.create_shared_durable_consumer(LATE, "late")
        notes("wrong", why="an unshared durable subscription was shared")
    except jms.IllegalStateError:
        pass
    notes("ready")
    while True:
        message = consumer.receive()
        assert message is not None
        note_got(notes, "late", message)


def answer(connection: jms.Connection, notes: Notes) -> None:
    session = connection.create_session()
    consumer, producer = session.create_consumer(ASKED), session.create_producer()
    while True:
        message = consumer.receive()
        assert message is not None
        # A question of a program that was killed has no queue for its answer any more.
        with contextlib.suppress(jms.InvalidDestinationError):
            producer.send(session.create_text_message(message.body), destination=message.jms_reply_to)


def listen(factory: jms.ConnectionFactory, notes: Notes) -> None:
    with factory.create_connection() as connection:
        stopped = threading.Event()

        def hear(message: jms.Message) -> None:
            if stopped.is_set():
                notes("wrong", why="a listener was called after stop() had returned")
            note_got(notes, "heard", message)

        connection.create_session().create_consumer(HEARD).message_listener = hear
        while True:
            connection.start()
            time.sleep(0.1)
            connection.stop()
            stopped.set()
            time.sleep(0.05)
            stopped.clear()


def ask(factory: jms.ConnectionFactory, notes: Notes) -> None:
    """Ask again and again with one temporary queue."""
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session()
        answers = session.create_temporary_queue()
        consumer, producer = session.create_consumer(answers), session.create_producer(ASKED)
        for number in range(1_000_000):
            question = session.create_text_message(f"{os.getpid()}-{number}")
            question.jms_reply_to = answers
            producer.send(question)
            if consumer.receive(timeout_s=2.0) is not None:
                notes("answered")


def play(role: str, domain: str, path: str) -> None:
    """Be one of the processes, until standard input ends or it is killed."""
    factory = jms.ConnectionFactory("norm://", domain=domain, interface="lo")
    notes = Notes(Path(path))
    act = {"producer": produce, "consumer": consume, "asker": ask}[role]

    def run() -> None:
        while True:
            try:
                act(factory, notes)
            except jms.ResourceAllocationError:
                # It began while there was no store.
                continue
            except BaseException as error:
                notes("wrong", why=f"the {role} failed: {error!r}")
                raise

    threading.Thread(target=run, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


class Troupe:
    """The processes, which can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.domain = directory, f"kills-{secrets.token_hex(4)}"
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.kills: list[tuple[float, str]] = []

    def start(self, role: str) -> None:
        """Start a process; of the store, wait until it is there."""
        store = [str(HERE / "store_node.py"), "norm", str(self.directory / "store"), self.domain]
        mine = [__file__, "--play", role, self.domain, str(self.directory / f"{role}.jsonl")]
        command = [sys.executable, *(store if role == "store" else mine)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE if role == "store" else None, text=True
        )
        self._processes[role] = process
        if role == "store":
            assert process.stdout is not None
            assert process.stdout.readline().strip(), "the store did not start"

    def kill(self, role: str) -> None:
        """End one as a power failure does."""
        self.kills.append((time.monotonic(), role))
        self.end(role)

    def end(self, role: str) -> None:
        process = self._processes.pop(role, None)
        if process is None:
            return
        process.kill()
        process.wait(PATIENCE_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def notes(self, role: str) -> list[Note]:
        path = self.directory / f"{role}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = []
        for line in lines:
            # A process may be killed in the middle of its last line.
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found


def until(is_true: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, f"in {PATIENCE_S:.0f} s not: {what}"
        time.sleep(0.1)


def play_all(troupe: Troupe, cycles: int, dice: random.Random) -> None:
    """Start all, kill some in each cycle, and let the rest arrive."""
    for role in ("store", *ROLES):
        troupe.start(role)
        if role == "consumer":
            until(
                lambda: any(note["what"] == "ready" for note in troupe.notes("consumer")),
                "a durable consumer",
            )
    for _ in range(cycles):
        time.sleep(dice.uniform(0.3, 2.0))
        chosen = dice.choice(
            [["store"], ["consumer"], ["producer"], ["store", "consumer"], ["store", "producer"]]
        )
        for role in chosen:
            troupe.kill(role)
        time.sleep(dice.uniform(0.0, 1.0))
        for role in chosen:
            troupe.start(role)
    troupe.end("producer")
    before = len(troupe.notes("asker"))
    until(lambda: not missing(troupe), "every message that was promised was received")
    until(lambda: len(troupe.notes("asker")) > before, "an answer at the temporary queue")
    for role in ROLES:
        troupe.end(role)


def missing(troupe: Troupe) -> set[str]:
    """What a producer was promised and no consumer got."""
    notes = troupe.notes("producer")
    promised = {note["name"] for note in notes if note["what"] == "sent"}
    promised |= {
        f"{note['name']}/{part}" for note in notes if note["what"] == "committed" for part in range(3)
    }
    return promised - {note["name"] for note in gots(troupe, "work")}


def gots(troupe: Troupe, queue: str) -> list[Note]:
    return [note for note in troupe.notes("consumer") if note["what"] == "got" and note["queue"] == queue]


def check(troupe: Troupe) -> list[str]:
    """What was not as it must be."""
    wrong = [note["why"] for role in ROLES for note in troupe.notes(role) if note["what"] == "wrong"]
    killed = [at for at, role in troupe.kills if role == "consumer"]
    acknowledged = {
        note["name"]: note["at"] for note in troupe.notes("consumer") if note["what"] == "acknowledged"
    }
    for queue in ("work", "fast", "heard", "late"):
        seen: defaultdict[str, list[Note]] = defaultdict(list)
        for note in gots(troupe, queue):
            name, before = note["name"], seen[note["name"]]
            if before and not note["again"]:
                wrong.append(f"{queue}: {name} came again and was not marked")
            if note["again"] != (note["count"] > 1):
                wrong.append(f"{queue}: {name} is marked {note['again']} and has count {note['count']}")
            if note["count"] > len(before) + 2:
                wrong.append(
                    f"{queue}: {name} was received {len(before)} times before, and counts {note['count']}"
                )
            if queue == "work" and acknowledged.get(name, note["at"]) < note["at"]:
                wrong.append(f"{queue}: {name} came again after it was acknowledged")
            between = [at for at in killed if before and before[-1]["at"] <= at <= note["at"]]
            # Those of transactions are persistent.
            if queue == "fast" and "/" not in name and before and not between:
                wrong.append(f"fast: {name} came twice, and its consumer was not killed")
            if note["expires"] and note["at"] > note["expires"] + SLACK_S:
                wrong.append(f"{queue}: {name} came {note['at'] - note['expires']:.2f} s after it expired")
            before.append(note)
    parts = Counter(
        note["name"].partition("/")[0] for note in unique(gots(troupe, "work")) if "/" in note["name"]
    )
    wrong += [
        f"of the transaction {name} {count} of 3 messages came" for name, count in parts.items() if count != 3
    ]
    sent = {note["name"]: note["at"] for note in troupe.notes("producer") if note["what"] == "late"}
    for note in gots(troupe, "late"):
        if note["at"] < sent[note["name"]] + DELAY_S:
            wrong.append(
                f"late: {note['name']} came {note['at'] - sent[note['name']]:.3f} s after it was sent"
            )
    return wrong


def unique(notes: list[Note]) -> list[Note]:
    return list({note["name"]: note for note in notes}.values())


def main() -> int:
    """Play, check, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--play", nargs=3, metavar=("ROLE", "DOMAIN", "NOTES"))
    given = parser.parse_args()
    if given.play:
        play(*given.play)
        return 0
    with tempfile.TemporaryDirectory(prefix="jms-kills-") as directory:
        troupe = Troupe(Path(directory))
        try:
            play_all(troupe, given.cycles, random.Random(given.seed))
            wrong = check(troupe)
        except AssertionError as error:
            wrong = [str(error), f"missing: {sorted(missing(troupe))[:10]}", *check(troupe)]
        finally:
            for role in ("store", *ROLES):
                troupe.end(role)
        kills = Counter(role for _, role in troupe.kills)
        counts = {queue: len(gots(troupe, queue)) for queue in ("work", "fast", "heard", "late")}
        again = sum(note["again"] for queue in counts for note in gots(troupe, queue))
        answers = sum(note["what"] == "answered" for note in troupe.notes("asker"))
    print(f"seed {given.seed}: kills {dict(kills)}, received {counts}, {again} again, {answers} answers")
    for line in wrong[:20]:
        print(f"wrong: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
