"""The client's half of the store's protocol, without a store, sockets, threads or a clock."""

import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from shoal._core import Message, RowsBuilder, encode_record, read_rows, split_rows
from shoal.bus.store_chain import RETRY_S, Chain, Claims
from shoal.bus.store_consumer import Inbox, offset_of, runs_of
from shoal.bus.store_errors import no_store
from shoal.bus.store_finder import SILENT_S, Finder
from shoal.bus.store_session import HELLO_S, IN_USE_RETRY_S, Session
from shoal.errors import BacklogError, InUseError, LeaseError, StoreFullError, StoreRefusedError

Body = dict[str, Any]


class Answers(list[Any]):
    """Collects what requests are answered with: the answer, or the error."""

    def __call__(self, answer: Body | None, error: BaseException | None = None) -> None:
        self.append(answer if error is None else error)


def session() -> Session:
    numbers = itertools.count(1)
    return Session(7, token=lambda: f"s{next(numbers)}")


def said(talk: Session, now: float = 0.0) -> list[Body]:
    return list(iter(lambda: talk.poll_output(now), None))


def greet(talk: Session, now: float = 0.0, run: str = "r1") -> None:
    talk.begin(now)
    (hello,) = said(talk, now)
    assert hello["op"] == "hello"
    talk.handle(now, {"op": "answer", "n": hello["n"], "run": run, "lease_s": 15.0})


def chain_of(talk: Session, **options: Any) -> tuple[RowsBuilder, Chain]:
    builder = RowsBuilder(7, 5)
    chain = Chain(7, 5, builder.take, lambda: builder.waiting_bytes, **options)
    talk.chains.append(chain)
    return builder, chain


def numbers_in(request: Body) -> list[int]:
    return [number for number, _ in split_rows(request["rows"])]


def refusal(request: Body, error: str, mark: int) -> Body:
    numbers = numbers_in(request)
    return {
        "op": "refused",
        "publisher": 7,
        "chain": 5,
        "first": numbers[0],
        "last": numbers[-1],
        "error": error,
        "text": "no",
        "mark": mark,
    }


# --- the session ---


def test_requests_wait_for_the_greeting_and_are_asked_again_in_the_next_session() -> None:
    talk, answers = session(), Answers()
    talk.request({"op": "status"}, answers)
    assert said(talk) == []
    greet(talk)
    (request,) = said(talk)
    assert (request["op"], request["session"]) == ("status", "s1")
    # The store was started again, and never answered.
    greet(talk, run="r2")
    (again,) = said(talk)
    assert (again["op"], again["n"], again["session"]) == ("status", request["n"], "s2")
    talk.handle(0.0, {"op": "answer", "n": again["n"], "queues": []})
    assert answers == [{"op": "answer", "n": again["n"], "queues": []}]


def test_what_belongs_to_a_lease_ends_with_the_session() -> None:
    talk, answers = session(), Answers()
    greet(talk)
    talk.request({"op": "ack"}, answers, lasting=False)
    talk.handle(1.0, {"op": "failed", "n": 0, "error": "NO_SESSION", "text": "who?"})
    assert talk.state == "idle"
    assert [type(answer) for answer in answers] == [LeaseError]


def test_a_consumer_whose_beginning_was_not_answered_is_begun_again_in_the_next_session() -> None:
    talk, answers = session(), Answers()
    greet(talk)
    inbox = Inbox(1, {"op": "consume", "queue": "q"}, prefetch=1, prefetch_bytes=1, auto=False)
    talk.add_inbox(inbox, answers)
    assert [body["op"] for body in said(talk)] == ["consume"]
    talk.end()
    assert (answers, inbox.error) == ([], None)
    greet(talk, run="r2")
    (again,) = said(talk)
    talk.handle(0.0, {"op": "answer", "n": again["n"], "lease": 5})
    assert (again["op"], inbox.lease, len(answers)) == ("consume", 5, 1)


def test_what_cannot_be_said_fails_alone() -> None:
    talk, heard = session(), Answers()
    greet(talk)
    talk.request({"op": "first"}, heard)
    talk.request({"op": "second"}, heard)
    first, second = said(talk)
    error = ValueError("it cannot be encoded")
    talk.refuse(first, error)
    talk.handle(0.0, {"op": "answer", "n": second["n"]})
    assert heard[0] is error
    assert heard[1]["n"] == second["n"]


def test_rows_that_the_link_does_not_take_together_go_one_by_one() -> None:
    talk, told = session(), Answers()
    greet(talk)
    builder, chain = chain_of(talk)
    builder.add("a", 0)
    (before,) = said(talk)
    for number in range(3):
        builder.add("a", number)
        chain.wait(number + 2, lambda error: told(None, error))
    together = talk.poll_output(0.0)
    assert together is not None
    assert numbers_in(together) == [2, 3, 4]
    talk.refuse(together, ValueError("it is too long"))
    alone = said(talk)
    assert [(numbers_in(each), each["after"], each["seq"]) for each in alone] == [
        ([2], 1, before["seq"] + 1),
        ([3], 2, before["seq"] + 2),
        ([4], 3, before["seq"] + 3),
    ]
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 4})
    assert told == [None] * 3
    assert (chain.in_flight, chain.unstored_bytes) == (0, 0)


def test_a_row_that_the_link_does_not_take_is_given_up_when_those_before_it_are_stored() -> None:
    talk, told = session(), Answers()
    greet(talk)
    builder, chain = chain_of(talk)
    builder.add("a", 0)
    (before,) = said(talk)
    builder.add("a", "long")
    chain.wait(2, lambda error: told(None, error))
    request = talk.poll_output(0.0)
    assert request is not None
    talk.refuse(request, ValueError("it is too long"))
    builder.add("a", 2)
    assert said(talk) == []
    assert (told, chain.stored) == ([], 0)
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 1})
    (behind,) = said(talk)
    assert [str(error) for error in told] == ["it is too long"]
    assert isinstance(told[0], StoreRefusedError)
    assert (numbers_in(behind), behind["after"], behind["seq"]) == ([3], 1, before["seq"] + 1)


def test_a_greeting_is_said_again_until_it_is_answered() -> None:
    talk = session()
    talk.begin(0.0)
    assert [body["op"] for body in said(talk)] == ["hello"]
    talk.handle_timeout(HELLO_S)
    assert [body["op"] for body in said(talk)] == ["hello"]
    assert talk.unanswered == 1


def test_a_client_id_that_a_dead_session_has_is_asked_for_again_until_its_lease_is_over() -> None:
    talk, answers = session(), Answers()
    waits: list[tuple[str, float]] = []
    talk.on_put_off = lambda error, left_s: waits.append((str(error), left_s))
    talk.request({"op": "status"}, answers)
    talk.begin(0.0)
    now, hellos = 0.0, 0
    while not answers:
        for hello in said(talk, now):
            hellos += 1
            talk.handle(now, {"op": "failed", "n": hello["n"], "error": "IN_USE", "text": "by another"})
        now += IN_USE_RETRY_S
        talk.handle_timeout(now)
        assert now < 60
    assert isinstance(answers[0], InUseError)
    assert now > 15, "as long as the lease may last"
    assert hellos > 20
    assert waits == [("by another", 16.0)], "told once, at its beginning"


def test_a_store_that_says_nothing_for_its_lease_is_gone() -> None:
    talk = session()
    greet(talk)
    talk.handle_timeout(5.0)
    assert [body["op"] for body in said(talk, 5.0)] == ["ping"]
    talk.handle_timeout(15.0)
    assert talk.state == "idle"


# --- rows ---


def test_rows_added_while_a_request_is_under_way_go_together() -> None:
    talk = session()
    builder, chain = chain_of(talk)
    greet(talk)
    for _ in range(3):
        builder.add("a", b"x")
        sent = said(talk)
    assert sent == []
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 1})
    (request,) = said(talk)
    assert (numbers_in(request), request["after"]) == ([2, 3], 1)
    assert chain.stored == 1


def test_whoever_waits_is_told_when_its_row_is_stored_and_not_before() -> None:
    talk, first, second = session(), Answers(), Answers()
    builder, chain = chain_of(talk)
    greet(talk)
    builder.add("a", b"1")
    chain.wait(1, lambda error: first(None, error))
    assert len(said(talk)) == 1
    builder.add("a", b"2")
    chain.wait(2, lambda error: second(None, error))
    assert len(said(talk)) == 1, "somebody waits, so it is not held back"
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 1})
    assert (first, second) == ([None], [])
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 2})
    assert (first, second) == ([None], [None])


def test_a_new_session_begins_with_everything_that_is_not_stored() -> None:
    talk = session()
    builder, _ = chain_of(talk)
    greet(talk)
    builder.add("a", b"1")
    said(talk)
    builder.add("a", b"2")
    greet(talk, run="r2")
    sent = said(talk)
    assert [numbers_in(request) for request in sent] == [[1]]
    assert sent[0]["after"] == 0
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 1})
    assert [numbers_in(request) for request in said(talk)] == [[2]]


def test_a_request_that_never_got_there_is_sent_again_with_the_one_that_was_refused_for_it() -> None:
    talk, answers = session(), Answers()
    builder, chain = chain_of(talk)
    greet(talk)
    for number in (1, 2):
        builder.add("a", b"%d" % number)
        chain.wait(number, lambda error: answers(None, error))
        (request,) = said(talk)
    talk.handle(0.0, refusal(request, "HOLE", 0))
    again = said(talk)
    assert [(numbers_in(one), one["after"]) for one in again] == [([1], 0), ([2], 1)]
    assert answers == []
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 2})
    assert answers == [None, None]
    assert (chain.is_idle, chain.unstored_bytes) == (True, 0)


def test_a_refused_request_of_many_is_tried_one_by_one_and_only_the_refused_fail() -> None:
    talk, answers = session(), Answers()
    builder, chain = chain_of(talk)
    for number in (1, 2, 3):
        builder.add("a", b"%d" % number)
        chain.wait(number, lambda error: answers(None, error))
    greet(talk)
    (request,) = said(talk)
    assert numbers_in(request) == [1, 2, 3]
    talk.handle(0.0, refusal(request, "BACKLOG", 0))
    alone = said(talk)
    assert [numbers_in(one) for one in alone] == [[1], [2], [3]]
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 1})
    talk.handle(0.0, refusal(alone[1], "BACKLOG", 1))
    assert [type(answer) for answer in answers] == [type(None), BacklogError]
    assert said(talk) == [], "the third comes back first"
    talk.handle(0.0, refusal(alone[2], "HOLE", 1))
    (last,) = said(talk)
    assert (numbers_in(last), last["after"]) == ([3], 1)
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 3})
    assert [type(answer) for answer in answers] == [type(None), BacklogError, type(None)]
    assert chain.is_idle


def test_behind_a_refused_row_a_strict_chain_stores_nothing() -> None:
    talk, answers = session(), Answers()
    builder, chain = chain_of(talk, strict=True)
    greet(talk)
    sent = []
    for number in (1, 2):
        builder.add("a", b"%d" % number)
        chain.wait(number, lambda error: answers(None, error))
        sent += said(talk)
    builder.add("a", b"3")
    assert [numbers_in(request) for request in sent] == [[1], [2]]
    talk.handle(0.0, refusal(sent[0], "BACKLOG", 0))
    assert [type(answer) for answer in answers] == [BacklogError, StoreRefusedError]
    talk.handle(0.0, refusal(sent[1], "HOLE", 0))
    assert said(talk) == [], "row 2 was on its way, row 3 was not: neither is sent"
    chain.wait(3, lambda error: answers(None, error))
    assert "message 1 before it was refused" in str(answers[2])
    greet(talk, run="r2")
    assert said(talk) == []


def test_a_row_that_the_store_cannot_read_fails_and_those_behind_it_are_stored() -> None:
    talk, answers = session(), Answers()
    builder, chain = chain_of(talk)
    greet(talk)
    builder.add("a", b"bad")
    chain.wait(1, lambda error: answers(None, error))
    said(talk)
    # What cannot be read has no numbers.
    answer = {"op": "refused", "publisher": 7, "chain": 5, "mark": 0, "error": "BAD_ROWS", "text": "bad"}
    talk.handle(0.0, answer)
    assert [type(answer) for answer in answers] == [StoreRefusedError]
    builder.add("a", b"good")
    chain.wait(2, lambda error: answers(None, error))
    (request,) = said(talk)
    assert numbers_in(request) == [2]
    talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 2})
    assert chain.is_idle


def test_an_error_nobody_waited_for_is_kept_once() -> None:
    talk = session()
    builder, chain = chain_of(talk)
    greet(talk)
    builder.add("a", b"1")
    (request,) = said(talk)
    talk.handle(0.0, refusal(request, "FULL", 0))
    assert isinstance(chain.take_failure(), StoreFullError)
    assert chain.take_failure() is None
    assert chain.stored == 1, "it is given up"


def test_an_outbox_waits_and_tries_again() -> None:
    talk = session()
    builder, chain = chain_of(talk, patient=True)
    greet(talk)
    builder.add("a", b"1")
    (request,) = said(talk)
    talk.handle(0.0, refusal(request, "FULL", 0))
    assert said(talk) == []
    assert talk.poll_timeout() == RETRY_S
    talk.handle_timeout(RETRY_S)
    assert [numbers_in(again) for again in said(talk)] == [[1]]
    assert chain.take_failure() is None


class Fickle:
    """The store's end of a chain: takes, refuses and forgets as it likes, and checks what it is sent."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.mark, self.taken, self.refused = dice, 0, [], set[int]()

    def answer(self, request: Body) -> Body:
        numbers = numbers_in(request)
        if self.mark < request["after"]:
            return refusal(request, "HOLE", self.mark)
        bad = [number for number in numbers if number % 17 == 0 and number > self.mark]
        if bad or (self.dice.random() < 0.05 and len(numbers) > 1):
            if len(numbers) == 1:
                self.refused.add(numbers[0])
            return refusal(request, "BACKLOG", self.mark)
        for number in numbers:
            if number > self.mark:
                self.mark = number
                self.taken.append(number)
        return {"op": "stored", "publisher": 7, "chain": 5, "through": max(self.mark, numbers[-1])}


@pytest.mark.parametrize("seed", range(30))
def test_whatever_a_store_refuses_and_however_often_it_starts_again_rows_arrive_once_and_in_order(
    seed: int,
) -> None:
    dice, outcomes = random.Random(seed), dict[int, Any]()
    talk, store = session(), Fickle(dice)
    builder, chain = chain_of(talk)
    wire: list[Body] = []
    greet(talk)
    added = 0
    for _ in range(3000):
        step = dice.random()
        if step < 0.3 and added < 300:
            added = builder.add("a", b"x" * dice.randrange(100))
            chain.wait(added, lambda error, number=added: outcomes.__setitem__(number, error))  # type: ignore[misc]
        elif step < 0.6:
            wire.extend(said(talk))
        elif step < 0.98 and wire:
            talk.handle(0.0, store.answer(wire.pop(0)))
        elif step >= 0.995:
            # What was under way is lost, or was taken and its answer is lost.
            for request in wire[: dice.randrange(len(wire) + 1)]:
                store.answer(request)
            wire.clear()
            greet(talk)
    while not chain.is_idle or builder.waiting_bytes or wire:
        wire.extend(said(talk))
        talk.handle(0.0, store.answer(wire.pop(0)))
    assert store.taken == sorted(store.taken)
    assert set(store.taken) | store.refused == set(range(1, added + 1)), f"seed {seed}"
    assert {number for number, error in outcomes.items() if error is not None} <= store.refused
    assert outcomes.keys() == set(range(1, added + 1))
    assert chain.unstored_bytes == 0


# --- deliveries ---


def deliver(inbox: Inbox, *offsets: int, counts: dict[int, int] | None = None) -> None:
    for offset in offsets:
        builder = RowsBuilder(9, 5, offset + 1)
        builder.add("_queue/q", b"%d" % offset)
        taken = builder.take()
        assert taken is not None
        body: Body = {"op": "deliver", "consumer": 1, "lease": inbox.lease, "first": offset, "rows": taken[0]}
        inbox.on_deliver(0.0, body if counts is None else body | {"counts": counts})


#: A store and its incarnation.
ORIGIN = ("store", "first")


def inbox_of(**options: Any) -> Inbox:
    inbox = Inbox(
        1,
        {"op": "consume", "queue": "q"},
        **{"prefetch": 4, "prefetch_bytes": 1 << 20, "auto": True} | options,
    )
    inbox.begin(ORIGIN)
    inbox.on_began({"lease": 3})
    return inbox


def test_a_reader_acknowledges_what_it_took_with_the_next_it_takes() -> None:
    inbox = inbox_of()
    deliver(inbox, 10, 11)
    (first,) = inbox.take("me")
    assert (first.body, first.topic, first.delivery_count, first.redelivered) == (b"10", "q", 1, False)
    assert inbox.poll_acks() is None
    inbox.settle("me")
    inbox.take("me")
    assert inbox.poll_acks() == {"op": "ack", "consumer": 1, "lease": 3, "offsets": [10, 10]}
    inbox.settle("me")
    assert inbox.take("me") == []
    assert inbox.poll_acks(0.0) == {"op": "ack", "consumer": 1, "lease": 3, "offsets": [11, 11]}


def read(inbox: Inbox, count: int, pause_s: float, start: int = 0) -> list[int]:
    """What a reader gets that takes as long between messages, as a thread would get it."""
    got = []
    for n in range(start, start + count):
        lot = inbox.lots.get("a")
        inbox.settle("a", n * pause_s)
        message = lot.popleft() if lot else inbox.take_one("a", n * pause_s)
        assert message is not None
        got.append(offset_of(message))
    return got


def test_a_fast_reader_takes_lots_and_what_it_did_not_get_goes_back_unseen() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(100))
    assert read(inbox, 20, 1e-6) == list(range(20))
    assert len(inbox.lots["a"]) > 0
    assert inbox.pending == 80
    assert inbox.cancel()["handed"] == [19, 19], "the rest is ready, or was finished"
    acks = inbox.poll_acks()
    assert acks is not None
    assert acks["offsets"] == [0, 18], "the last one may not be done"


def test_all_that_a_fast_reader_got_is_done_when_it_says_so() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(100))
    read(inbox, 20, 1e-6)
    inbox.settle_all(lambda reader: True)
    acks = inbox.poll_acks()
    assert acks is not None
    assert acks["offsets"] == [0, 19]
    assert read(inbox, 10, 1e-6, start=20) == list(range(20, 30))


def test_a_slow_reader_takes_one_by_one_and_leaves_others_the_rest() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(10))
    assert read(inbox, 5, 1.0) == list(range(5))
    other = inbox.take_one("b", 5.0)
    assert other is not None
    assert offset_of(other) == 5


def test_what_is_in_a_lot_is_not_given_out_under_another_lease() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(100))
    read(inbox, 20, 1e-6)
    lot = inbox.lots["a"]
    inbox.begin()
    assert not lot
    assert inbox.pending == 0


def test_many_at_once_begin_with_what_is_in_the_lot() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(100))
    read(inbox, 20, 1e-6)
    left = len(inbox.lots["a"])
    assert [offset_of(each) for each in inbox.take("a", 1000)] == list(range(20, 20 + left))
    assert offset_of(inbox.take("a", 1)[0]) == 20 + left


def test_readers_do_not_acknowledge_for_each_other() -> None:
    inbox = inbox_of()
    deliver(inbox, 10, 11, 12)
    for reader in ("me", "you", "me"):
        inbox.settle(reader)
        inbox.take(reader)
    assert inbox.poll_acks() == {"op": "ack", "consumer": 1, "lease": 3, "offsets": [10, 10]}


def test_what_is_too_old_when_it_is_taken_goes_back() -> None:
    inbox = inbox_of(prefetch=100)
    lives = {10: 400_000, 12: 2_000_000}
    builder = RowsBuilder(7, 5)
    for number in range(4):
        builder.add("q", b"%d" % number)
    taken = builder.take()
    assert taken is not None
    body = {"op": "deliver", "consumer": 1, "lease": inbox.lease, "first": 10, "rows": taken[0]}
    inbox.on_deliver(5.0, body | {"lives": lives})
    first = inbox.take_one("reader", 5.4)
    assert first is not None
    assert first.body == b"1"
    back = inbox.poll_expired()
    assert back is not None
    assert (back["offsets"], back["seen"]) == ([10, 10], False)
    assert [message.body for message in inbox.take("reader", 10, 6.9)] == [b"2", b"3"]


def test_what_was_on_its_way_for_long_is_older_by_as_much() -> None:
    talk, inbox = session(), inbox_of(prefetch=100)
    talk.begin(100.0)
    (hello,) = said(talk, 100.0)
    assert hello["at"] == 100_000_000
    # The store's clock shows something else.
    talk.handle(100.1, {"op": "answer", "n": hello["n"], "run": "r1", "lease_s": 15.0, "at": 7_000_000})
    talk.inboxes[inbox.number] = inbox
    builder = RowsBuilder(7, 5)
    builder.add("q", b"x")
    taken = builder.take()
    assert taken is not None
    body = {"op": "deliver", "consumer": 1, "lease": inbox.lease, "first": 10, "rows": taken[0]}
    talk.handle(104.1, body | {"lives": {10: 3_500_000}, "at": 8_000_000})
    assert inbox.take("reader", 1, 104.5) != [], "of 3.5 s it was 3 on its way"
    talk.handle(108.1, body | {"first": 11, "lives": {11: 3_500_000}, "at": 12_000_000})
    assert inbox.take("reader", 1, 108.7) == []


def test_rows_say_how_long_they_waited_also_for_another_session() -> None:
    talk, answers = session(), Answers()
    builder, _chain = chain_of(talk)
    talk.begin(0.0)
    (hello,) = said(talk, 0.0)
    talk.handle(0.0, {"op": "answer", "n": hello["n"], "run": "r1", "lease_s": 15.0})
    builder.add("q", b"x", ttl_s=3.0)
    talk.request({"op": "commit", "rows": b"", "since": 10.0}, answers)
    first = said(talk, 10.5)
    assert [(each["op"], each["waited_us"], each["at"]) for each in first] == [
        ("commit", 500_000, 10_500_000),
        ("send", 0, 10_500_000),
    ]
    assert not any("since" in each for each in first)
    talk.end()
    talk.begin(12.0)
    (hello,) = said(talk, 12.0)
    talk.handle(12.0, {"op": "answer", "n": hello["n"], "run": "r2", "lease_s": 15.0})
    again = said(talk, 12.75)
    assert {each["op"]: each["waited_us"] for each in again} == {"commit": 2_750_000, "send": 2_250_000}


def test_time_in_which_rows_are_taken_is_counted_once() -> None:
    """Rows say how old they are when they are taken, which may be a while after the session was asked."""
    talk, now = session(), 10.0
    builder = RowsBuilder(7, 5)

    def take() -> tuple[bytes, int, int] | None:
        nonlocal now
        now += 0.5
        return builder.take()

    talk.chains.append(Chain(7, 5, take, lambda: builder.waiting_bytes, clock=lambda: now))
    greet(talk, 10.0)
    builder.add("q", b"x", delivery_delay_s=3.0)
    (request,) = said(talk, 10.0)
    assert (request["op"], request["at"], request["waited_us"]) == ("send", 10_500_000, 0)
    talk.end()
    greet(talk, 12.0, "r2")
    (request,) = said(talk, 12.0)
    assert (request["op"], request["at"], request["waited_us"]) == ("send", 12_000_000, 1_500_000)


def test_credit_is_given_when_half_of_it_is_used() -> None:
    inbox = inbox_of()
    deliver(inbox, 1, 2, 3, 4)
    inbox.take("me")
    assert inbox.poll_credit(0.0) is None
    inbox.take("me")
    credit = inbox.poll_credit(0.0)
    assert credit is not None
    assert credit["messages"] == 6
    assert inbox.poll_credit(0.0) is None


def test_what_was_delivered_under_another_lease_cannot_be_acknowledged() -> None:
    inbox = inbox_of(auto=False)
    deliver(inbox, 10)
    (message,) = inbox.take("me")
    inbox.begin()
    inbox.on_began({"lease": 4})
    with pytest.raises(LeaseError, match="comes again"):
        inbox.offset_of(message)
    deliver(inbox, 10, counts={10: 0})
    (again,) = inbox.take("me")
    assert (again.redelivered, again.delivery_count) == (True, 2)
    assert inbox.acknowledge([inbox.offset_of(again)])["offsets"] == [10, 10]


def test_one_that_retires_gives_back_what_nobody_received_as_never_delivered() -> None:
    inbox = inbox_of(auto=False)
    deliver(inbox, 10, 11, 12)
    (first, second) = inbox.take("reader", 2)
    inbox.pause()
    deliver(inbox, 13)
    declined, retired = inbox.decline([second]), inbox.retire()
    assert declined is not None
    assert retired is not None
    assert [(each["offsets"], each["seen"]) for each in (declined, retired)] == [
        ([11, 11], False),
        ([12, 13], False),
    ]
    assert inbox.decline([second]) is None
    assert inbox.take("reader") == []
    assert inbox.acknowledge([offset_of(first)])["offsets"] == [10, 10]
    assert inbox.poll_credit(0.0) is None


def test_what_nobody_received_before_the_session_was_lost_is_not_given_out() -> None:
    talk, inbox = (
        session(),
        Inbox(1, {"op": "consume", "queue": "q"}, prefetch=100, prefetch_bytes=1 << 20, auto=True),
    )
    retired = Inbox(2, {"op": "consume", "queue": "q"}, prefetch=100, prefetch_bytes=1 << 20, auto=False)
    greet(talk)
    for each in (inbox, retired):
        talk.add_inbox(each, Answers())
        (began,) = said(talk)
        talk.handle(0.0, {"op": "answer", "n": began["n"], "lease": 5})
    deliver(inbox, 10, 11)
    assert len(inbox.take("reader")) == 1
    retired.retire()
    talk.end()
    assert inbox.take("reader") == []
    greet(talk, run="r2")
    assert [each["consumer"] for each in said(talk) if each["op"] == "consume"] == [1]
    assert retired.closed


def test_recovering_gives_back_what_is_held_and_what_is_ready() -> None:
    inbox = inbox_of(auto=False)
    deliver(inbox, 10, 11, 12)
    inbox.take("me", 2)
    assert inbox.pause()["messages"] == 0
    deliver(inbox, 13)
    assert inbox.take("me") == []
    unseen, held, credit = inbox.recover()
    assert (unseen["offsets"], unseen["seen"]) == ([12, 13], False)
    assert (held["offsets"], held["seen"]) == ([10, 11], True)
    assert credit["messages"] == 8, "what is given back does not count"


def test_acknowledging_through_a_message_takes_all_before_it() -> None:
    inbox = inbox_of(auto=False)
    deliver(inbox, 10, 11, 12)
    messages = inbox.take("me", 3)
    assert inbox.through(messages[1]) == [10, 11]


def test_a_message_of_somebody_else_is_refused() -> None:
    inbox = inbox_of(auto=False)
    with pytest.raises(ValueError, match="was not received here"):
        inbox.offset_of(read_rows(_rows(), 0, consumer=9, lease=3)[0])


def _rows() -> bytes:
    builder = RowsBuilder(1, 1)
    builder.add("a", b"")
    taken = builder.take()
    assert taken is not None
    return taken[0]


@pytest.mark.parametrize(
    ("offsets", "runs"),
    [([], []), ([5], [5, 5]), ([3, 1, 2], [1, 3]), ([1, 2, 4, 5, 9], [1, 2, 4, 5, 9, 9]), ([1, 1], [1, 1])],
)
def test_offsets_become_runs(offsets: list[int], runs: list[int]) -> None:
    assert runs_of(offsets) == runs


# --- finding a store ---


def here(store: str = "aa", **changes: Any) -> Body:
    body = {"store": store, "run": "r", "name": "n", "domain": "d", "urls": [], "term": 1, "state": "open"}
    return body | {"patterns": [">"]} | changes


def test_the_store_in_use_is_kept_and_one_that_keeps_comes_before_one_that_does_not() -> None:
    finder = Finder()
    finder.on_here(0.0, here("cc", memory=True))
    assert finder.choose(0.0, None).store == "cc"  # type: ignore[union-attr]
    assert finder.choose(0.0, "cc", memory=False) is None
    finder.on_here(0.0, here("bb"))
    finder.on_here(0.0, here("aa"))
    assert finder.choose(0.0, None).store == "aa"  # type: ignore[union-attr]
    assert finder.choose(0.0, "bb").store == "bb"  # type: ignore[union-attr]
    finder.on_here(0.1, here("bb", state="failed"))
    assert finder.choose(0.1, "bb").store == "aa"  # type: ignore[union-attr]
    assert finder.choose(SILENT_S + 1, "bb") is None


def test_of_several_stores_it_is_the_one_that_keeps_what_is_asked_for() -> None:
    finder = Finder()
    finder.on_here(0.0, here("aa", patterns=["orders/>", "orders"]))
    finder.on_here(0.0, here("bb", patterns=["news/>"]))
    wanted = ("orders/1", "_queue/orders", "news/eu/>", "_queue/temporary/7", "other")
    found = [finder.choose(0.0, None, destination=each) for each in wanted]
    assert [each and each.store for each in found] == ["aa", "aa", "bb", "aa", None]


def test_stores_that_keep_something_else_are_named() -> None:
    finder = Finder()
    finder.on_here(0.0, here("aa", name="shop", patterns=["orders/>", "orders"]))
    finder.on_here(0.0, here("cc", name="light", memory=True))
    assert finder.others(0.0, "prices/x") == "'shop' keeps orders/>, orders"
    assert finder.others(0.0, "orders/1") == "", "it keeps this, and could not be reached"
    assert finder.others(SILENT_S + 1, "prices/x") == ""
    error = no_store("publishing", 5.0, "", finder.others(0.0, "prices/x"))
    assert "keep other destinations: 'shop' keeps orders/>, orders. Give one" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        {},
        here() | {"term": "x"},
        here() | {"term": float("inf")},
        here() | {"urls": 3},
        here("../>"),
        here() | {"name": "\ud800"},
    ],
)
def test_what_makes_no_sense_is_no_store(body: Any) -> None:
    finder = Finder()
    finder.on_here(0.0, body)
    assert finder.choose(0.0, None) is None


def test_stores_are_asked_for_less_often_each_time() -> None:
    finder = Finder()
    finder.look(0.0)
    asked = [now for now in (step / 100 for step in range(500)) if finder.should_ask(now)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert gaps == sorted(gaps)
    assert 6 <= len(asked) <= 8


def test_a_loss_on_the_way_ends_the_session_and_the_next_one_asks_again() -> None:
    talk, answers = session(), Answers()
    lost: list[None] = []
    talk.on_lost = lambda: lost.append(None)
    greet(talk)
    talk.request({"op": "status"}, answers)
    (status,) = said(talk)
    talk.handle(0.0, {"op": "answer", "n": 0, "seq": 1})
    talk.handle(0.0, {"op": "answer", "n": status["n"], "seq": 3})
    assert (talk.state, len(lost), answers) == ("idle", 1, [])
    greet(talk)
    assert [body["op"] for body in said(talk)] == ["status"]


def test_what_is_said_in_a_session_is_numbered_without_a_hole() -> None:
    talk = session()
    greet(talk)
    for _ in range(3):
        talk.request({"op": "status"}, Answers())
    first = talk.poll_output(0.0)
    assert first is not None
    talk.refuse(first, ValueError("it cannot be said"))
    assert [body["seq"] for body in said(talk)] == [1, 2]
    greet(talk)
    talk.say({"op": "ack"})
    assert [body["seq"] for body in said(talk)] == [1, 2, 3], "each session has its own numbers"


# --- what is finished, and what is in hand ---


def test_a_finished_message_is_acknowledged_in_time_however_long_the_next_one_takes() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(10))
    inbox.take_one("a", 1.0)
    inbox.settle("a", 1.01)
    inbox.take_one("a", 1.01)
    assert inbox.poll_acks(1.01) is None, "more may come to be said with it"
    due = inbox.poll_timeout()
    assert due is not None
    assert due <= 1.11
    inbox.handle_timeout(due)
    assert inbox.poll_acks(due) == {"op": "ack", "consumer": 1, "lease": 3, "offsets": [0, 0]}


def test_a_reader_that_becomes_slow_in_a_lot_acknowledges_what_it_finished_and_leaves_the_rest() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(100))
    read(inbox, 20, 1e-6)
    assert inbox.lots["a"]
    for _ in range(2):
        due = inbox.poll_timeout()
        assert due is not None
        inbox.handle_timeout(due)
    acks = inbox.poll_acks(due)
    assert acks is not None
    assert acks["offsets"] == [0, 18], "the last one is in hand"
    assert inbox.take_one("b", due) is not None
    assert offset_of(inbox.take("b")[0]) == 21, "others have the rest"


def test_the_store_hears_what_a_slow_reader_has_in_hand_at_once() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(10))
    inbox.take_one("a", 1.0)
    assert inbox.has_word(1.0)
    assert inbox.poll_handed() == {"op": "handed", "consumer": 1, "lease": 3, "offsets": [0, 0]}
    assert inbox.poll_handed() is None


def test_messages_that_came_before_are_never_taken_in_a_lot() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(10), counts={5: 2})
    for n in range(4):
        inbox.settle("a", n * 1e-6)
        inbox.take_one("a", n * 1e-6)
        assert not inbox.lots["a"]


def test_two_calls_of_one_reader_finish_nothing_of_each_other() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, 10, 11)
    inbox.settle("a")
    inbox.settle("a")
    inbox.take("a")
    inbox.take("a")
    assert inbox.poll_acks() is None
    inbox.settle("a")
    assert inbox.poll_acks() == {"op": "ack", "consumer": 1, "lease": 3, "offsets": [10, 11]}


def test_a_new_session_begins_with_what_the_program_did_in_the_last_one() -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, *range(10, 16), counts={12: 3})
    for _ in range(3):
        inbox.settle("a")
        inbox.take("a")
    assert inbox.poll_acks() is not None, "which the store may not have made durable"
    inbox.lose("s1")
    inbox.settle("a")
    named = {"store": "store", "incarnation": "first"}
    assert inbox.begin(ORIGIN)["former"] == {
        **named,
        "lease": 3,
        "sessions": ["s1"],
        "finished": [10, 12],
        "handed": [],
        "counts": {},
    }
    inbox.lose("s2")
    former = inbox.begin(ORIGIN)["former"]
    assert former["sessions"] == ["s1", "s2"], "the store may have begun it, unheard"
    inbox.on_began({"lease": 4})
    inbox.lose("s3")
    nothing: dict[str, Any] = {"finished": [], "handed": [], "counts": {}}
    assert inbox.begin(ORIGIN)["former"] == {**named, "lease": 4, "sessions": ["s3"], **nothing}


def test_a_message_that_was_given_back_and_is_ready_again_is_reported_as_handed_over_once() -> None:
    inbox = inbox_of(prefetch=1000, auto=False)
    deliver(inbox, 10)
    inbox.take("a")
    inbox.release([10], 0.0)
    deliver(inbox, 10, counts={10: 2})
    inbox.lose("s1")
    former = inbox.begin(ORIGIN)["former"]
    assert (former["handed"], former["counts"]) == ([10, 10], {}), "the second delivery was only ready"


@pytest.mark.parametrize("origin", [("other", "first"), ("store", "restored")])
def test_another_store_hears_nothing_of_what_the_program_did_in_the_last_one(origin: tuple[str, str]) -> None:
    inbox = inbox_of(prefetch=1000)
    deliver(inbox, 10, 11)
    inbox.take("a")
    inbox.settle("a")
    inbox.lose("s1")
    assert "former" not in inbox.begin(origin), "it has other messages at these offsets"
    inbox.lose("s2")
    assert inbox.begin(origin)["former"]["finished"] == []


def test_what_the_store_made_durable_is_not_reported() -> None:
    talk, inbox = session(), inbox_of(prefetch=1000)
    talk.inboxes[1] = inbox
    greet(talk)
    said(talk)
    inbox.on_began({"lease": 3})
    deliver(inbox, 10, 11)
    for _ in range(3):
        inbox.settle("a")
        inbox.take("a")
    assert said(talk)[0]["op"] == "ack"
    talk.request({"op": "status"}, Answers())
    (request,) = said(talk)
    talk.handle(0.0, {"op": "answer", "n": request["n"]})
    inbox.lose("s1")
    assert inbox.begin(("", ""))["former"]["finished"] == []


def test_a_message_that_is_not_persistent_is_finished_once_it_was_handed_over() -> None:
    inbox = inbox_of(prefetch=1000)
    builder = RowsBuilder(7, 5)
    builder.add("q", b"1", persistent=False)
    taken = builder.take()
    assert taken is not None
    inbox.on_deliver(0.0, {"op": "deliver", "consumer": 1, "lease": 3, "first": 10, "rows": taken[0]})
    inbox.take("a")
    inbox.lose("s1")
    assert inbox.begin(ORIGIN)["former"]["finished"] == [10, 10]


# --- prefetch that follows the reader's pace ---


def test_a_slow_reader_holds_no_message_that_it_does_not_work_on() -> None:
    inbox = inbox_of(prefetch=None)
    for n in range(5):
        deliver(inbox, 10 + n)
        inbox.settle("a", float(n))
        assert inbox.take_one("a", float(n)) is not None
        assert inbox.poll_credit(float(n)) is None, "the next one is for whoever asks first"
        assert inbox.take_one("a", n + 0.9) is None
        credit = inbox.poll_credit(n + 0.9)
        assert credit is not None
        assert credit["messages"] == n + 2


def test_a_fast_reader_has_as_many_ready_as_it_takes_in_a_moment() -> None:
    inbox = inbox_of(prefetch=None)
    granted, offset, now = 1, 0, 0.0
    for _ in range(20):
        deliver(inbox, *range(offset, granted))
        offset = granted
        while inbox.take_one("a", now) is not None:
            now += 1e-4
            inbox.settle("a", now)
        credit = inbox.poll_credit(now)
        assert credit is not None
        granted = credit["messages"]
    assert granted - offset == pytest.approx(1000, rel=0.3), "as many as it takes in 0.1 s"


# --- refusals ---


def test_a_refusal_is_raised_for_its_destination_and_names_its_message() -> None:
    talk = session()
    builder, chain = chain_of(talk)
    greet(talk)
    builder.add("_queue/full", b"1")
    (request,) = said(talk)
    talk.handle(0.0, refusal(request, "BACKLOG", 0))
    assert chain.take_failure("_queue/healthy") is None
    error = chain.take_failure("_queue/full")
    assert isinstance(error, BacklogError)
    assert error.message_id == "ID:0000000000000007-5-1"
    assert chain.failures == 0


def test_a_refusal_is_for_whoever_sent_the_message_and_not_for_one_that_waits_for_room() -> None:
    talk, room, mine = session(), Answers(), Answers()
    builder, chain = chain_of(talk)
    greet(talk)
    chain.claims.add(1)
    builder.add("_queue/full", b"1")
    (request,) = said(talk)
    chain.wait(1, lambda error: room({}, error), own=False)
    talk.handle(0.0, refusal(request, "BACKLOG", 0))
    assert room == [{}]
    assert chain.take_failure() is None, "its sender is about to wait"
    chain.wait(1, lambda error: mine({}, error))
    assert [type(each) for each in mine] == [BacklogError]


def test_callers_claim_rows_while_others_are_settled() -> None:
    claims = Claims()
    another = threading.Thread(target=claims.add, args=[9])

    class Number(int):
        """One that is looked at while another thread claims a row."""

        def __gt__(self, other: int) -> bool:
            if another.ident is None:
                another.start()
                another.join(0.05)
            return int(self) > other

    for number in (1, 2, 3):
        claims.add(Number(number))
    claims.settle(2)
    another.join()
    assert [number for number in (1, 2, 3, 9) if number in claims] == [3, 9]


def test_a_refused_caller_is_told_though_live_subscribers_cannot_be() -> None:
    talk, told = session(), Answers()

    def fail(rows: bytes, at: float, redelivered: bool) -> None:
        raise RuntimeError("a mistake")

    builder, chain = chain_of(talk, publish=fail)
    builder.add("a", 0)
    builder.add("_queue/full", 1)
    chain.wait(2, lambda error: told(None, error))
    greet(talk)
    (both,) = said(talk)
    talk.handle(0.0, refusal(both, "BACKLOG", 0))
    first, second = said(talk)
    with pytest.raises(RuntimeError):
        talk.handle(0.0, {"op": "stored", "publisher": 7, "chain": 5, "through": 1})
    with pytest.raises(RuntimeError):
        talk.handle(0.0, refusal(second, "BACKLOG", 1))
    assert numbers_in(first) == [1]
    assert [type(error) for error in told] == [BacklogError]


def said_on_a_small_link(speak: Callable[[Session], None]) -> list[dict[str, Any]]:
    """What a session says whose link takes 20,000 bytes a message; each of it fits."""
    session = Session(7, token=lambda: "s")
    session.bytes_max = 20_000
    session.begin(0.0)
    hello = session.poll_output(0.0)
    assert hello is not None
    session.handle(0.0, {"op": "answer", "n": hello["n"], "run": "r"})
    speak(session)
    said = []
    while (body := session.poll_output(0.0)) is not None:
        assert len(encode_record("t", body)) <= 20_000
        said.append(body)
    return said


#: Of which no two make one run.
SCATTERED = [at for offset in range(1 << 60, (1 << 60) + 30_000, 2) for at in (offset, offset)]


def test_offsets_that_no_request_holds_go_in_several_and_the_last_is_answered() -> None:
    ack = {"op": "ack", "consumer": 1, "lease": 5, "offsets": SCATTERED}
    said = said_on_a_small_link(lambda session: session.request(ack, lambda answer, error: None))
    assert [number for body in said for number in body["offsets"]] == SCATTERED
    assert [bool(body["n"]) for body in said] == [False] * (len(said) - 1) + [True]
    handed = said_on_a_small_link(lambda session: session.say({**ack, "op": "handed"}))
    assert [number for body in handed for number in body["offsets"]] == SCATTERED


def in_hand(session: Session) -> Inbox:
    """A consumer whose program has many messages in hand."""
    inbox = Inbox(1, {"op": "consume", "queue": "q"}, prefetch=1, prefetch_bytes=1, auto=False)
    session.inboxes[1], inbox.lease, inbox.numbers_fit = inbox, 5, 60
    inbox._held = dict.fromkeys(SCATTERED, Message("q", b"", persistent=True))
    return inbox


@pytest.mark.parametrize("is_bye", [False, True])
def test_a_consumer_that_ends_says_all_that_its_program_has_in_hand(is_bye: bool) -> None:
    def end(session: Session) -> None:
        inbox = in_hand(session)
        if is_bye:
            session.bye()
        else:
            session.remove_inbox(inbox, lambda answer, error: None)

    *before, last = [body for body in said_on_a_small_link(end) if body["op"] != "credit"]
    assert {(body["op"], body["seen"], body["lease"]) for body in before} == {("release", True, 5)}
    assert last["op"] == ("bye" if is_bye else "cancel")
    told = [number for body in before for number in body["offsets"]] + last.get("handed", [])
    assert sorted(told) == SCATTERED


def test_a_report_that_is_cut_says_so() -> None:
    inbox = in_hand(Session(7, token=lambda: "s"))
    inbox.lose("s")
    former = inbox.begin(("", ""))["former"]
    assert former["cut"] is True
    assert former["handed"] == SCATTERED[:20]
