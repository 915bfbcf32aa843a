"""What the specification leaves to the provider, asked of Artemis's Java client and of `shoal.jms`.

`python tests/jms/oracle/oracle.py` writes docs/reference/jms-answers.md; it needs what scripts/peers fetches.
With `--ours` it asks only Shoal and prints.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import shoal
from shoal import jms

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs/reference/jms-answers.md"
WAIT_S = 10.0

#: What is asked, in words.
QUESTIONS = {
    "priorities": (
        "Three persistent messages of priority 1, 9 and 5 wait in a queue: in which order do they come?"
    ),
    "no_id": "`disable_message_id`: what does a sent message have?",
    "no_timestamp": "`disable_message_timestamp`: what does a sent message have?",
    "recover": (
        "Two of three messages were received, then `recover`: what comes next (`*` is marked as redelivered)?"
    ),
    "failing_listener": (
        "A listener that always raises, AUTO_ACKNOWLEDGE: how often is it given the message?"
    ),
    "browse_unacknowledged": (
        "A browser of a queue whose one message was delivered and not acknowledged: how many does it see?"
    ),
    "browse_expired": "A browser of a queue whose one message has expired: how many does it see?",
    "null_text": "A TextMessage without a text: what does the receiver read?",
    "unknown_jmsx": "A property `JMSXFoo`, which the provider does not know: may it be set?",
    "selector_of_unlike_literals": "The selector `TRUE = 0`: what does making the consumer do?",
    "closed_consumer_then_recover": (
        "A message is received, its consumer closed, `recover` called: does the next consumer get it?"
    ),
    "acknowledge_after_consumer_closed": (
        "A message is received, its consumer closed, then it is acknowledged: what does the next "
        "consumer get?"
    ),
    "forward_received": "A received message is sent on: which id does it have then?",
    "write_after_send": "A BytesMessage was sent: what of it?",
}


def text(message: jms.Message | None) -> str:
    return "nothing" if message is None else str(message.body)


def ask_ours(factory: jms.ConnectionFactory) -> dict[str, str]:
    """Shoal's answers."""
    answers = {}
    for name in QUESTIONS:
        with factory.create_connection() as connection:
            connection.start()
            try:
                answers[name] = globals()[name](connection)
            except (jms.JMSError, ValueError) as error:
                answers[name] = type(error).__name__
    return answers


def priorities(connection: jms.Connection) -> str:
    session = connection.create_session()
    queue = session.create_queue("priorities")
    producer = session.create_producer(queue)
    for priority in (1, 9, 5):
        producer.priority = priority
        producer.send(session.create_text_message(str(priority)))
    consumer = session.create_consumer(queue)
    return " ".join(text(consumer.receive(WAIT_S)) for _ in range(3))


def no_id(connection: jms.Connection) -> str:
    session = connection.create_session()
    producer = session.create_producer(session.create_topic("ids"))
    producer.disable_message_id = True
    message = session.create_message()
    producer.send(message)
    return "none" if message.jms_message_id is None else "an id"


def no_timestamp(connection: jms.Connection) -> str:
    session = connection.create_session()
    producer = session.create_producer(session.create_topic("times"))
    producer.disable_message_timestamp = True
    message = session.create_message()
    producer.send(message)
    return "0" if message.jms_timestamp == 0 else "a time"


def recover(connection: jms.Connection) -> str:
    session = connection.create_session(jms.Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue("recover")
    for number in (1, 2, 3):
        session.create_producer(queue).send(session.create_text_message(str(number)))
    consumer = session.create_consumer(queue)
    for _ in range(2):
        consumer.receive(WAIT_S)
    session.recover()
    again = [consumer.receive(WAIT_S) for _ in range(3)]
    return " ".join(text(each) + ("*" if each is not None and each.jms_redelivered else "") for each in again)


def failing_listener(connection: jms.Connection) -> str:
    session = connection.create_session()
    queue = session.create_queue("failing")
    session.create_producer(queue).send(session.create_text_message("x"))
    calls, given_up = [0], threading.Event()

    def listen(message: jms.Message) -> None:
        calls[0] += 1
        raise ValueError("no")

    session.create_consumer(queue).message_listener = listen
    before = -1
    while before != calls[0]:
        before = calls[0]
        given_up.wait(3)
    return f"{calls[0]} deliveries"


def browse_unacknowledged(connection: jms.Connection) -> str:
    session = connection.create_session(jms.Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue("browsed")
    session.create_producer(queue).send(session.create_text_message("x"))
    session.create_consumer(queue).receive(WAIT_S)
    return f"{len(list(connection.create_session().create_browser(queue)))} messages"


def browse_expired(connection: jms.Connection) -> str:
    session = connection.create_session()
    queue = session.create_queue("expired")
    session.create_producer(queue).send(session.create_text_message("x"), time_to_live_s=0.05)
    time.sleep(0.3)
    return f"{len(list(session.create_browser(queue)))} messages"


def null_text(connection: jms.Connection) -> str:
    session = connection.create_session()
    topic = session.create_topic("texts")
    consumer = session.create_consumer(topic)
    session.create_producer(topic).send(session.create_text_message())
    message = consumer.receive(WAIT_S)
    return "null" if message is not None and message.body is None else "empty"


def unknown_jmsx(connection: jms.Connection) -> str:
    connection.create_session().create_message().set_string_property("JMSXFoo", "x")
    return "accepted"


def selector_of_unlike_literals(connection: jms.Connection) -> str:
    session = connection.create_session()
    session.create_consumer(session.create_topic("unlike"), "TRUE = 0")
    return "accepted"


def closed_consumer_then_recover(connection: jms.Connection) -> str:
    session = connection.create_session(jms.Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue("closed")
    session.create_producer(queue).send(session.create_text_message("x"))
    with session.create_consumer(queue) as consumer:
        consumer.receive(WAIT_S)
    session.recover()
    return text(session.create_consumer(queue).receive(WAIT_S))


def acknowledge_after_consumer_closed(connection: jms.Connection) -> str:
    session = connection.create_session(jms.Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue("late")
    session.create_producer(queue).send(session.create_text_message("x"))
    with session.create_consumer(queue) as consumer:
        message = consumer.receive(WAIT_S)
    assert message is not None
    message.acknowledge()
    return text(connection.create_session().create_consumer(queue).receive(timeout_s=0.5))


def forward_received(connection: jms.Connection) -> str:
    session = connection.create_session()
    topic = session.create_topic("forward")
    consumer = session.create_consumer(topic)
    message = session.create_text_message("x")
    message.set_int_property("a", 1)
    session.create_producer(topic).send(message)
    received = consumer.receive(WAIT_S)
    assert received is not None
    before = received.jms_message_id
    session.create_producer(topic).send(received)
    return "the old id" if before == received.jms_message_id else "a new id"


def write_after_send(connection: jms.Connection) -> str:
    session = connection.create_session()
    message = session.create_bytes_message()
    message.write_int(1)
    session.create_producer(session.create_topic("written")).send(message)
    message.write_int(2)
    return "more can be written"


def ask_artemis() -> dict[str, str]:
    """Artemis's answers."""
    from shoal_bench.norm import free_port
    from shoal_bench.peers import artemis, servers

    home, port = servers.artemis(), free_port()
    if home is None or shutil.which("javac") is None:
        sys.exit("ActiveMQ Artemis is not here, or no javac: run scripts/peers")
    with tempfile.TemporaryDirectory() as made, artemis.server(port, Path(made), 0.001):
        ran = subprocess.run(
            ["java", "-cp", f"{home}/lib/*", str(HERE / "Oracle.java"), str(port)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    if ran.returncode:
        sys.exit(f"Artemis's client failed: {ran.stderr}")
    return dict(line.split("\t") for line in ran.stdout.splitlines() if "\t" in line)


def page(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """The page with both answers."""
    lines = [
        "# Where the specification leaves room",
        "",
        "The same script, in Java through ActiveMQ Artemis's own client and in Python through `shoal.jms`.",
        "`make jms-oracle` asks both again and writes this page; the scripts are in `tests/jms/oracle`.",
        "",
        "| question | Shoal | Artemis 2.40 |",
        "|---|---|---|",
    ]
    lines += [
        f"| {asked} | {ours[name]} | {theirs.get(name, 'no answer')} |" for name, asked in QUESTIONS.items()
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Ask both, and write the page."""
    with (
        tempfile.TemporaryDirectory() as made,
        shoal.connect("inproc://oracle", store=f"{made}/store") as bus,
    ):
        ours = ask_ours(jms.ConnectionFactory(bus=bus))
    if "--ours" in sys.argv:
        print("\n".join(f"{name}: {answer}" for name, answer in ours.items()))
        return
    PAGE.write_text(page(ours, ask_artemis()))


if __name__ == "__main__":
    main()
