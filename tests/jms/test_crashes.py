"""Sections 6.2.7, 6.2.10 and 6.2.11: what is left when a client ends in the middle of something."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import HERE, PATIENCE_S

import shoal
from shoal import jms

ORDERS, DONE, TOLD = jms.Queue("orders"), jms.Queue("done"), jms.Topic("told")

#: Deliveries after which a queue puts a message aside.
DELIVERIES_MAX = 10
#: The store notices by itself that a client has gone.
GONE_S = 60.0


@pytest.fixture
def domain() -> str:
    return f"crash-{secrets.token_hex(4)}"


@pytest.fixture
def context(domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[jms.JMSContext]:
    """The program that stays, and keeps the store, which is less patient with silent clients than others."""
    monkeypatch.setattr("shoal.store.machine.LEASE_S", 3.0)
    with (
        shoal.connect("norm://", domain=domain, interface="lo", store=tmp_path / "store") as bus,
        jms.ConnectionFactory(bus=bus).create_context() as context,
    ):
        yield context


def crash(what: str, domain: str) -> str:
    """Let a client take a message and end: the message."""
    ran = subprocess.run(
        [sys.executable, str(HERE / "crashing.py"), what, domain],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == -9, ran.stderr
    return ran.stdout.strip()


def body_of(found: str) -> str:
    """The body of the message that a client had, without which delivery it was."""
    return found.split()[0]


def test_a_client_that_ends_before_it_acknowledges_leaves_the_message(
    context: jms.JMSContext, domain: str
) -> None:
    context.create_producer().send(ORDERS, "order")
    assert body_of(crash("before-acknowledge", domain)) == "order"
    again = context.create_consumer(ORDERS).receive(timeout_s=GONE_S)
    assert again is not None
    assert (again.body, again.jms_redelivered) == ("order", True)


def test_a_client_that_ends_after_it_acknowledged_does_not(context: jms.JMSContext, domain: str) -> None:
    context.create_producer().send(ORDERS, "first").send(ORDERS, "second")
    assert body_of(crash("after-acknowledge", domain)) == "first"
    # What else it had been handed comes back, and the first does not.
    consumer = context.create_consumer(ORDERS)
    assert consumer.receive_body(str, timeout_s=GONE_S) == "second"
    assert consumer.receive(timeout_s=0.2) is None


def test_a_client_that_ends_in_a_transaction_did_nothing_of_it(context: jms.JMSContext, domain: str) -> None:
    told = context.create_consumer(TOLD)
    context.create_producer().send(ORDERS, "order")
    assert body_of(crash("in-transaction", domain)) == "order"
    again = context.create_consumer(ORDERS).receive(timeout_s=GONE_S)
    assert again is not None
    assert (again.body, again.jms_redelivered) == ("order", True)
    assert told.receive(timeout_s=0.2) is None
    assert context.create_consumer(DONE).receive(timeout_s=0.2) is None


def test_a_client_that_ends_after_its_commit_did_all_of_it(context: jms.JMSContext, domain: str) -> None:
    told = context.create_consumer(TOLD)
    context.create_producer().send(ORDERS, "order").send(ORDERS, "next")
    assert body_of(crash("after-commit", domain)) == "order"
    assert told.receive_body(str, timeout_s=PATIENCE_S) == "order"
    assert context.create_consumer(DONE).receive_body(str, timeout_s=PATIENCE_S) == "order"
    assert context.create_consumer(ORDERS).receive_body(str, timeout_s=GONE_S) == "next"


@pytest.mark.parametrize("what", ["before-acknowledge", "in-transaction", "in-listener"])
def test_a_bad_message_that_ends_its_worker_takes_no_other_along(
    context: jms.JMSContext, domain: str, what: str
) -> None:
    producer = context.create_producer()
    for number in range(21):
        producer.send(ORDERS, str(number))
    counts = []
    for _ in range(DELIVERIES_MAX):
        body, count = crash(what, domain).split()
        assert body == "0"
        counts.append(int(count))
    dead = context.create_consumer(jms.Queue("dead-letters"))
    found_dead = dead.receive_body(str, timeout_s=PATIENCE_S / 3)
    if found_dead is None:
        # Only a worker that died within the delay of its first report is not counted: the store has the
        # report of every later delivery before the worker has the message.
        body, count = crash(what, domain).split()
        assert body == "0"
        counts.append(int(count))
        assert counts == [1, 2, *range(2, DELIVERIES_MAX + 1)]
        found_dead = dead.receive_body(str, timeout_s=PATIENCE_S)
    else:
        assert counts == [*range(1, DELIVERIES_MAX + 1)]
    assert found_dead == "0"
    consumer = context.create_consumer(ORDERS)
    found = [consumer.receive(timeout_s=GONE_S) for _ in range(20)]
    assert [message.body for message in found if message is not None] == [str(n) for n in range(1, 21)]
    for message in found:
        assert message is not None
        # A message that was in flight to a worker that died may have been received there: it is marked.
        assert message.get_int_property("JMSXDeliveryCount") == 1 + message.jms_redelivered
    assert dead.receive(timeout_s=0.2) is None
