"""When a session of the store's machine ends, and what becomes of what it had."""

import pytest
from desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_a_session_is_told_is_numbered(desk: Desk) -> None:
    client = desk.client("a")
    client.put("q", b"1", b"2")
    client.consume("q")
    assert [body["seq"] for body in client.heard] == list(range(1, len(client.heard) + 1))


def test_a_lost_request_ends_the_session_and_its_messages_are_redelivered(desk: Desk) -> None:
    client, other = desk.client("a"), desk.client("b")
    client.put("q", b"x")
    tap = client.consume("q")
    client.tell("ping")
    client.tell("ping", seq=client.sent + 2)
    desk.run()
    (gone,) = [body for body in client.heard if body["op"] == "gone"]
    assert (gone["consumer"], gone["error"]) == (None, "NO_SESSION")
    assert other.consume("q").bodies() == [b"x"]
    assert tap.ack(b"x")["error"] == "NO_SESSION"


def test_the_next_session_of_a_connection_ends_the_one_before(desk: Desk) -> None:
    former = desk.client("a", client_id="me")
    former.put("q", b"x")
    former.consume("q")
    again = desk.client("b", client_id="me", publisher=former.publisher)
    assert again.hello["op"] == "answer", "nobody waits for a lease of its own"
    assert again.consume("q").bodies() == [b"x"]


def test_a_session_that_its_links_cannot_reach_is_ended_by_who_serves(desk: Desk) -> None:
    client, other = desk.client("a"), desk.client("b")
    client.put("q", b"x")
    client.consume("q")
    desk.machine.end_session(desk.now, "a", "it takes nothing")
    desk.machine.end_session(desk.now, "unknown", "nobody knows it")
    desk.run()
    assert client.heard[-1]["text"] == "it takes nothing"
    assert other.consume("q").bodies() == [b"x"]


def test_heartbeats_of_its_link_renew_a_lease_and_silence_ends_it(desk: Desk) -> None:
    client, other = desk.client("a", lease_s=3.0), desk.client("b", lease_s=1000)
    client.put("q", b"x")
    client.consume("q")
    for _ in range(20):
        desk.wait(1.0)
        desk.machine.handle_links(desk.now, {"a": 0.9, "nobody": 0.1})
    assert "a" in desk.machine.sessions, "a program that computes says nothing, and its link beats"
    desk.wait(1.0)
    desk.machine.handle_links(desk.now, {"a": 1.9})
    desk.wait(1.0)
    assert "a" in desk.machine.sessions
    desk.wait(0.2)
    assert "a" not in desk.machine.sessions
    assert other.consume("q").bodies() == [b"x"]


def test_a_closed_link_ends_its_session_unless_the_client_connects_again(desk: Desk) -> None:
    client = desk.client("a", lease_s=3.0)
    client.put("q", b"x")
    desk.machine.handle_links(desk.now, {"a": None})
    desk.wait(0.3)
    desk.machine.handle_links(desk.now, {"a": 0.0})
    desk.wait(2.0)
    assert "a" in desk.machine.sessions
    desk.machine.handle_links(desk.now, {"a": None})
    desk.wait(0.3)
    desk.machine.handle_links(desk.now, {"a": None})
    desk.wait(0.3)
    assert "a" not in desk.machine.sessions
    assert client.heard[-1]["text"] == "its link is closed"
    assert [each.chain for each in desk.silent] == [5]


def test_a_store_that_stood_still_ends_no_lease(desk: Desk) -> None:
    desk.client("a", lease_s=3.0)
    for _ in range(2):
        # As one that was stopped, or whose disk hung.
        desk.now_s += 60.0
        desk.machine.handle_timeout(desk.now)
    assert "a" in desk.machine.sessions
    desk.wait(1.5)
    assert "a" not in desk.machine.sessions


def test_a_consumer_that_waits_for_a_silent_session_is_told_why_once(desk: Desk) -> None:
    holder, other = desk.client("a", lease_s=6.0, client_id="process 7"), desk.client("b", lease_s=1000)
    holder.put("q", b"1", b"2")
    holder.consume("q")
    other.consume("q")
    desk.wait(2.0)
    assert not [body for body in other.heard if body["op"] == "waiting"]
    desk.wait(3.5)
    (told,) = [body for body in other.heard if body["op"] == "waiting"]
    assert (told["consumer"], told["messages"], told["holder"]) == (1, 2, "process 7")
    assert told["silent_s"] + told["left_s"] == pytest.approx(6.0)


def test_nobody_is_told_to_wait_for_what_no_silent_session_has(desk: Desk) -> None:
    idle, other = desk.client("a", lease_s=4.0), desk.client("b", lease_s=1000)
    idle.consume("q", messages=0)
    other.consume("q")
    desk.wait(3.5)
    assert not [body for body in other.heard if body["op"] == "waiting"]
