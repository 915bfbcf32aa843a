"""What a store lets clients publish before it is stored, and what it takes without room."""

from typing import Any

import pytest
from desk import Client, Desk

from shoal.bus.store_protocol import CREDIT_BYTES
from shoal.store import credit
from shoal.testing import rows

UNLIMITED = {"credit": CREDIT_BYTES, "limited": []}


def told(client: Client) -> list[dict[str, Any]]:
    """What a client was told of its credit since it began."""
    return [
        {name: body[name] for name in ("credit", "limited")}
        for body in client.heard
        if body["op"] == "credit"
    ]


def limits(client: Client, number: int = 0, **more: Any) -> None:
    """A subscription to `t` that refuses when it has 300 bytes."""
    client.subscribe(
        "t", name=f"s{number or ''}", shared=True, durable=True, backlog_max_bytes=300, messages=0, **more
    )


def outcomes(client: Client) -> list[str]:
    """What became of what was sent."""
    return [body.get("error", "stored") for body in client.heard if body["op"] in ("stored", "refused")]


def test_a_session_is_told_at_once_and_when_it_changes() -> None:
    desk = Desk()
    one, two = desk.client("one"), desk.client("two")
    assert {name: one.hello[name] for name in UNLIMITED} == UNLIMITED
    limits(one)
    one.ask("declare", queue="q", backlog_max_bytes=300)
    assert told(two) == [{"credit": CREDIT_BYTES, "limited": ["t"]}]
    assert desk.client("three").hello["limited"] == ["t"]
    desk.machine.set_space(None, "the disk has little space")
    desk.run()
    desk.machine.set_space(None, None)
    desk.run()
    one.ask("cancel", consumer=one.last_consumer)
    one.ask("unsubscribe", name="s", shared=True)
    assert told(two)[1:] == [
        {"credit": 0, "limited": []},
        {"credit": CREDIT_BYTES, "limited": ["t"]},
        UNLIMITED,
    ]


def test_limits_outlive_a_crash() -> None:
    desk = Desk()
    limits(desk.client("one"))
    desk.crash()
    assert desk.client("one").hello["limited"] == ["t"]


def test_a_store_with_very_many_limits_gives_no_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credit, "LIMITED_MAX", 0)
    desk = Desk()
    client = desk.client("one")
    limits(client)
    assert told(client) == [{"credit": 0, "limited": []}]


def test_what_was_live_is_taken_without_room_and_nothing_else_is() -> None:
    desk = Desk()
    client = desk.client("one")
    limits(client)
    client.send("t", bytes(250))
    client.send("t", bytes(250))
    client.number -= 1
    client.send("t", bytes(250), live=True)
    desk.machine.set_space("the disk is full", "the disk is full")
    client.send("u", bytes(250), live=True)
    client.send("u", bytes(250))
    desk.run()
    assert outcomes(client) == ["stored", "BACKLOG", "stored", "stored", "FULL"]


def test_between_two_changes_no_more_is_overdrawn_than_the_credit_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(credit, "CREDIT_BYTES", 500)
    desk = Desk()
    client = desk.client("one")
    limits(client)
    client.send("t", bytes(250))
    client.send("t", bytes(300), live=True)
    client.send("t", bytes(300), live=True)
    desk.run()
    client.send("t", bytes(300), live=True)
    desk.run()
    client.number -= 1
    assert outcomes(client) == ["stored", "stored", "stored", "BACKLOG"]
    client.subscribe("u", name="u", shared=True, durable=True, backlog_max_bytes=300)
    client.send("t", bytes(300), live=True)
    desk.run()
    assert outcomes(client)[4:] == ["stored"]


def test_an_overdraft_is_charged_once_however_many_subscriptions_are_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(credit, "CREDIT_BYTES", 4000)
    desk = Desk()
    client = desk.client("one")
    for number in range(4):
        limits(desk.client(f"reader-{number}"), number=number)
    desk.machine.set_space("the disk is full", "the disk is full")
    desk.run()
    for _ in range(10):
        client.send("t", bytes(300), live=True)
    assert outcomes(client) == ["stored"] * 10


def test_what_is_refused_is_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credit, "CREDIT_BYTES", 400)
    desk = Desk()
    client = desk.client("one")
    limits(client)
    client.send("t", bytes(250))
    message = (client.number + 1, desk.now.wall_us, rows.record("t", bytes(250)))
    reserved = (client.number + 2, desk.now.wall_us, rows.record("_x", b""))
    content = rows.encode(client.publisher, 5, [message, reserved])
    for _ in range(2):
        client.tell("send", publisher=client.publisher, chain=5, after=1, rows=content, live=True)
    client.send("t", bytes(250), live=True)
    assert outcomes(client) == ["stored", "BAD_REQUEST", "BAD_REQUEST", "stored"]
