"""The store's machine with damaged files, and with requests of any kind."""

import random

import pytest
from desk import Desk

from shoal._core import SimulatedDisk
from shoal.errors import StoreCorruptError, StoreError

OPS = (
    "hello", "ping", "bye", "send", "commit", "subscribe", "consume", "credit", "ack", "release",
    "cancel", "report", "browse", "declare", "delete", "purge", "move", "unsubscribe", "reserve",
    "reserved", "unreserve", "shown", "status",
)  # fmt: skip
FIELDS = (
    "version", "publisher", "client_id", "lease_s", "chain", "after", "rows", "id", "acks", "consumer",
    "queue", "messages", "bytes", "patterns", "selector", "name", "durable", "shared", "start", "lease",
    "offsets", "delay_s", "seen", "to", "topic", "temporary", "first", "last", "from", "on_full",
    "former", "handed",
)  # fmt: skip
VALUES = (
    None, True, 0, 1, 5, -1, 1 << 70, 1.5, float("nan"), "", "q", "x" * 500, "new", b"", b"\1\0\0\0",
    [], [1], [1, 2], [2, 1], ["t/>"], [[1, 2, [0, 0]]], [[[], 1, []]], [[{}, 1, [0, 0]]], {}, {"a": 1},
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_no_request_harms_the_store(seed: int) -> None:
    dice, desk = random.Random(seed), Desk()
    client = desk.client("a", lease_s=1000)
    for n in range(600):
        fields = {dice.choice(FIELDS): dice.choice(VALUES) for _ in range(dice.randrange(8))}
        desk.machine.handle(desk.now, {"op": dice.choice(OPS), "session": "a", "n": n + 100, **fields})
        if n % 20 == 0:
            desk.run()
    desk.run()
    desk.crash()
    sender = desk.client("b")
    sender.put("fresh", b"x")
    assert sender.consume("fresh").bodies() == [b"x"]
    assert client.heard


def test_an_acknowledgement_names_its_consumer_by_a_number() -> None:
    client = Desk().client("a")
    answer = client.ask("commit", id="c", publisher=client.publisher, chain=6, acks=[[[], 1, []]])
    assert answer["error"] == "BAD_REQUEST"
    assert "[]" in answer["text"]


@pytest.mark.parametrize("session", ["*", ">", "a/b", "", "x" * 65, "\U0001f600", "a b", "\0"])
def test_a_session_whose_name_is_no_part_of_a_topic_gets_no_answer(session: str) -> None:
    desk = Desk()
    desk.machine.handle(desk.now, {"op": "hello", "session": session, "n": 1, "version": 1, "publisher": 5})
    desk.machine.append(desk.now)
    desk.machine.settle(desk.now)
    assert desk.machine.poll_transmit() == []


@pytest.mark.parametrize("name", ["q/*", ">", "a//b", "/q", "q/>"])
def test_a_queue_is_not_called_as_a_pattern_is(name: str) -> None:
    client = Desk().client("a")
    assert client.ask("declare", queue=name)["error"] == "BAD_REQUEST"
    assert client.ask("declare", queue="q", dead_letter=name)["error"] == "BAD_REQUEST"
    answer = client.ask("consume", queue=name, consumer=1, messages=1, bytes=1000)
    assert answer["error"] == "BAD_REQUEST"


def test_dead_letters_do_not_go_to_a_queue_that_goes_with_a_connection() -> None:
    answer = Desk().client("a").ask("declare", queue="q", dead_letter="temporary/x")
    assert "must be a queue that stays" in answer["text"]


def test_what_nobody_could_receive_is_not_taken() -> None:
    client = Desk().client("a")
    client.put("x" * 201, b"x")
    assert [body["error"] for body in client.refused()] == ["BAD_REQUEST"]


def filled(disk: SimulatedDisk) -> Desk:
    desk = Desk(disk)
    client = desk.client("a")
    tap = client.consume("q")
    for n in range(20):
        client.put("q", b"%d" % n)
    tap.ack(b"3", b"4")
    desk.log.close()
    return desk


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_is_told_and_never_taken_for_something_else(seed: int) -> None:
    dice = random.Random(seed)
    desk = filled(SimulatedDisk(seed))
    disk = desk.disk
    end = desk.log.durable[1]
    disk.flip("0000000001.log", dice.randrange(8 * (end - 64)))
    desk.clients.clear()
    told = ""
    try:
        desk.open()
    except StoreCorruptError as error:
        told = str(error)
    if told:
        assert "0000000001.log" in told
        return
    # A frame ends at a multiple of eight: the bit was in what lies between two of them.
    assert desk.log.recovered[1:3] == (end, 0)
    left = [b"%d" % n for n in range(20) if n not in (3, 4)]
    assert desk.client("a").consume("q").bodies() == left


def test_a_file_that_was_cut_off_is_named() -> None:
    desk = filled(SimulatedDisk(1))
    desk.disk.cut("0000000001.log", 900)
    with pytest.raises(StoreError, match=r"0000000001\.log"):
        desk.open()
