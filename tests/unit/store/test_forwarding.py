"""A store that forwards to another one: what it takes, what it sends, what the other one takes."""

import zlib
from pathlib import Path
from typing import Any

import pytest
from desk import Client, Desk

from shoal._core import forward_rows
from shoal.errors import ConfigError, StoreError
from shoal.store.config import load_toml, resolve
from shoal.store.core import Core
from shoal.store.forward_chain import ForwardChain
from shoal.store.forwards import Next
from shoal.store.numbers import RUNS_MAX, Numbers, Run
from shoal.store.rule import ForwardRule
from shoal.testing import rows


def rule(*patterns: str, **options: Any) -> ForwardRule:
    given = {"name": "hq", "to": "tcp://hq:7480"} | options
    return ForwardRule(patterns=patterns or ("orders/>", "_queue/billing"), **given)


class Line:
    """A store, its rule, and a session with the next store, without a network between them."""

    def __init__(self, near: Desk, far: Desk, name: str = "hq") -> None:
        self.near, self.far, self.name = near, far, name
        self.lives = 0
        self.given_up: list[tuple[int, int, str]] = []
        self.connect()

    def connect(self) -> None:
        """The first store starts, or only its session with the next one."""
        self.lives += 1
        self.session: Client = self.far.client(
            f"rule-{self.near.store_id}-{self.lives}", publisher=self.near.store_id, kept=True
        )
        place = self.near.machine.forwards.place(self.name)
        self.chain = ForwardChain(
            self.near.machine.forwards.rules[self.name],
            self.near.log,
            self,
            lambda: {"takes": ["forward"], **self.session.hello},
            place=place,
        )
        self.chain.restart()

    def run(self) -> None:
        """Forward until there is nothing more to say."""
        while (request := self.chain.poll_send()) is not None:
            self.session.heard.clear()
            self.session.tell(**request)
            self.far.run()
            for body in self.session.heard:
                if body["op"] == "stored":
                    self.chain.on_stored(body["through"])
                elif body["op"] == "passed":
                    self.chain.on_passed(body["through"])
                elif body["op"] == "refused":
                    self.chain.on_refused(0.0, body)
            self.near.run()

    # What the rule tells and asks.

    def next_of(self, name: str) -> Next | None:
        return self.near.machine.forwards.next_of(name)

    def set_next(self, name: str, to: Next) -> None:
        self.near.machine.forwards.set_next(name, to)

    def release(self, name: str, end: int, messages: int, size: int) -> None:
        self.near.machine.forwarded(self.near.now, name, end, messages, size)

    def give_up(self, name: str, first: int, end: int, why: str) -> bool:
        self.given_up.append((first, end, why))
        self.near.machine.give_up_forwarded(self.near.now, name, first, end, why)
        self.near.run()
        return self.near.machine.forwards.place(name) >= end

    def uneven(self, chain: tuple[int, int]) -> list[Run] | None:
        return self.near.machine.numbers.uneven(chain)

    @property
    def upstream(self) -> list[str]:
        return self.near.machine.custody.upstream


def line(*rules: ForwardRule, **far: Any) -> Line:
    return Line(Desk(forward=rules or (rule(),), store_id=7), Desk(store_id=8, **far))


def bodies(desk: Desk, *patterns: str) -> list[bytes]:
    found = desk.log.rows(0, desk.log.durable_end, patterns)
    return [rows.body_of(row[-1]) for row in found]


def waiting(desk: Desk) -> int:
    (found,) = desk.machine.status()["forwards"]
    return int(found["messages"])


# --- what a rule says ---


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"to": "locate://reg/hq"}, "must be tcp"),
        ({"name": "a/b"}, "name is"),
        ({"patterns": ()}, "patterns is"),
        ({"patterns": ("_queue/>",)}, "must name a queue"),
        ({"patterns": ("_queue/dead-letters",)}, "must name a queue"),
        ({"patterns": ("_queue/temporary/x",)}, "must name a queue"),
        ({"patterns": ("_store/>",)}, "begin with '_'"),
        ({"release": "never"}, "release is"),
        ({"backlog_max_bytes": 0}, "backlog_max_bytes is"),
    ],
)
def test_a_wrong_rule_is_refused_and_says_why(options: dict[str, Any], why: str) -> None:
    given = {"name": "hq", "patterns": ("a",), "to": "tcp://hq:1"} | options
    with pytest.raises(ConfigError, match=why):
        ForwardRule(**given)


def test_rules_come_from_a_file_and_two_of_one_name_or_queue_are_refused(tmp_path: Path) -> None:
    text = 'data = "d"\n[[forward]]\nname = "hq"\npatterns = ["a/>"]\nto = "tcp://hq:1"\ntoken_file = "t"\n'
    file = tmp_path / "store.toml"
    file.write_text(text + 'backlog_max_bytes = "10MB"\n')
    (found,) = load_toml(file)[0].forward
    assert (found.patterns, found.token_file, found.backlog_max_bytes) == (("a/>",), tmp_path / "t", 10**7)
    with pytest.raises(ConfigError, match="two rules of one name"):
        resolve("d", forward=[{"name": "a", "patterns": ["a"], "to": "tcp://x:1"}] * 2)
    with pytest.raises(ConfigError, match="two rules for the queue 'q'"):
        resolve("d", forward=[{"name": n, "patterns": ["_queue/q"], "to": "tcp://x:1"} for n in "ab"])
    with pytest.raises(ConfigError, match="unknown option 'pattern' in forward: did you mean 'patterns'"):
        resolve("d", forward=[{"name": "a", "pattern": ["a"], "to": "tcp://x:1"}])


# --- forwarding ---


def test_what_matches_is_forwarded_under_its_identity_and_the_rest_stays() -> None:
    way = line()
    publisher = way.near.client("p")
    publisher.send("orders/1", b"1", b"2")
    publisher.send("local", b"3")
    publisher.put("billing", b"4")
    assert publisher.stored() == [2, 3, 4]
    assert waiting(way.near) == 3
    way.run()
    assert bodies(way.far) == [b"1", b"2", b"4"]
    assert [row[2:5] for row in way.far.log.rows(0, 9)] == [(publisher.publisher, 5, at) for at in (1, 2, 4)]
    assert waiting(way.near) == 0
    assert way.near.machine.pin == way.near.log.end
    tap = way.far.client("c").consume("billing")
    assert tap.bodies() == [b"4"]


def test_a_store_takes_a_destination_of_a_rule_that_another_store_keeps() -> None:
    near = Desk(forward=(rule(),), patterns=("own/>",))
    publisher = near.client("p")
    publisher.send("orders/1", b"1")
    publisher.send("other", b"2")
    assert publisher.stored() == [1]
    assert [body["error"] for body in publisher.refused()] == ["NOT_OWNED"]
    answer = publisher.ask("consume", consumer=1, queue="billing", messages=1, bytes=1)
    assert answer["error"] == "NOT_OWNED"
    assert "forwards the queue 'billing' to tcp://hq:7480" in answer["text"]


def test_a_rule_goes_on_where_the_next_store_is_whoever_was_killed() -> None:
    way = line()
    publisher = way.near.client("p")
    for number in range(20):
        publisher.send("orders/1", b"%d" % number)
    way.run()
    # The first store forgets that it forwarded the last ones, and the second dies.
    way.near.crash()
    way.far.crash()
    publisher = way.near.client("p2")
    publisher.send("orders/1", b"20")
    way.connect()
    way.run()
    assert bodies(way.far) == [b"%d" % number for number in range(21)]
    assert waiting(way.near) == 0


def test_messages_that_are_not_for_the_next_store_do_not_hold_a_rule_back() -> None:
    way = line()
    publisher = way.near.client("p")
    publisher.send("orders/1", b"1")
    way.run()
    for number in range(5):
        publisher.send("local", b"%d" % number)
        way.run()
    assert way.near.machine.pin == way.near.log.end
    publisher.send("orders/1", b"2")
    way.run()
    assert bodies(way.far) == [b"1", b"2"]


def test_a_transaction_is_one_frame_at_the_next_store() -> None:
    way = line()
    publisher = way.near.client("p")
    records = [(number, 1, rows.record("orders/1", b"%d" % number)) for number in range(1, 2001)]
    content = rows.encode(publisher.publisher, 6, records)
    publisher.ask("commit", id="x", publisher=publisher.publisher, chain=6, rows=content, acks=[])
    way.chain.poll_send()
    way.chain.on_stored(0)
    request = way.chain.poll_send()
    assert request is not None
    assert request["rows"] == content


def test_custody_counts_for_the_time_to_live_and_what_expired_is_not_forwarded() -> None:
    way = line()
    publisher = way.near.client("p")
    publisher.send("orders/1", b"short", ttl_us=2_000_000)
    publisher.send("orders/1", b"long", ttl_us=60_000_000)
    way.near.wait(5.0)
    way.far.now_s = way.near.now_s
    way.run()
    assert bodies(way.far) == [b"long"]
    assert waiting(way.near) == 0
    way.far.wait(50.0)
    tap = way.far.client("c").subscribe("orders/>", start="earliest")
    assert tap.bodies() == [b"long"]
    way.far.wait(6.0)
    late = way.far.client("d").subscribe("orders/>", start="earliest")
    assert late.bodies() == [], "5 s of custody and 56 s here are more than 60 s"


def test_messages_that_are_not_persistent_are_not_forwarded() -> None:
    way = line()
    way.near.client("c", client_id="c").subscribe("orders/>", name="s", durable=True)
    way.near.client("p").say("orders/1", b"fleeting")
    assert bodies(way.near) == [b"fleeting"]
    way.run()
    assert bodies(way.far) == []


def test_a_full_backlog_of_a_rule_refuses_publishers() -> None:
    near = Desk(forward=(rule(backlog_max_bytes=300),))
    publisher = near.client("p")
    publisher.send("orders/1", bytes(200))
    publisher.send("orders/1", bytes(200))
    (refused,) = publisher.refused()
    assert (refused["error"], publisher.stored()) == ("BACKLOG", [1])
    assert "the rule 'hq'" in refused["text"]
    near.crash()
    (found,) = near.machine.status()["forwards"]
    assert found["messages"] == 1
    assert found["bytes"] >= 200


def test_a_next_store_without_room_is_waited_for() -> None:
    way = line()
    way.near.client("p").send("orders/1", b"1")
    way.far.machine.set_space("the disk is full", None)
    way.run()
    assert way.chain.refused == "the disk is full"
    assert way.given_up == []
    way.far.machine.set_space(None, None)
    way.chain.handle_timeout(10.0)
    way.run()
    assert bodies(way.far) == [b"1"]
    assert way.chain.refused is None


def test_a_message_that_is_never_taken_goes_to_the_dead_letters_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = line()
    publisher = way.near.client("p")
    for body in (b"1", bytes(5000), b"3"):
        publisher.send("orders/1", body)
    monkeypatch.setattr("shoal.store.custody.RECORD_BYTES_MAX", 1000)
    way.run()
    assert bodies(way.far) == [b"1", b"3"]
    assert [(first, end) for first, end, _ in way.given_up] == [(1, 2)]
    assert bodies(way.near, "_queue/dead-letters") == [bytes(5000)]
    assert waiting(way.near) == 0
    publisher.send("orders/1", b"4")
    way.connect()
    way.run()
    assert bodies(way.far) == [b"1", b"3", b"4"]


def test_a_rule_that_waits_for_the_next_hop_keeps_messages_until_they_are_passed() -> None:
    near = Desk(forward=(rule("orders/>", release="passed"),), store_id=7)
    middle = Desk(forward=(rule("orders/>"),), store_id=8)
    far = Desk(store_id=9)
    first, second = Line(near, middle), Line(middle, far)
    near.client("p").send("orders/1", b"1", b"2")
    first.run()
    assert bodies(middle) == [b"1", b"2"]
    assert waiting(near) == 2, "the second store is the only other one that has them"
    second.run()
    for body in first.session.heard:
        if body["op"] == "passed":
            first.chain.on_passed(body["through"])
    assert waiting(near) == 0
    assert bodies(far) == [b"1", b"2"]


# --- rules that change ---


def test_a_rule_that_is_gone_with_messages_keeps_the_store_from_starting() -> None:
    near = Desk(forward=(rule(),))
    near.client("p").send("orders/1", b"1")
    near.forward = ()
    with pytest.raises(StoreError, match=r"'hq' is not in the configuration any more, and 1 messages wait"):
        near.restart()
    near.forward = (rule("other"),)
    with pytest.raises(StoreError, match="has other patterns than before, and 1 messages wait"):
        near.crash()
    near.forward = (rule(),)
    near.crash()
    answer = near.client("o").ask("rule", name="hq", act="drop")
    assert (answer["messages"], waiting(near)) == (1, 0)
    near.forward = ()
    near.restart()
    assert near.machine.status()["forwards"] == []


def test_a_queue_with_messages_is_not_forwarded_behind_the_back_of_its_consumers() -> None:
    near = Desk()
    near.client("p").put("billing", b"1")
    near.forward = (rule(),)
    with pytest.raises(StoreError, match="forwards the queue 'billing', which has 1 messages here"):
        near.restart()


def test_a_rule_stops_before_a_store_that_was_restored_or_is_another_one() -> None:
    way = line()
    publisher = way.near.client("p")
    publisher.send("orders/1", b"1")
    way.run()
    for change, why in (({"incarnation": "other"}, "was restored"), ({"store": "b" * 16}, "another store")):
        way.connect()
        way.session.hello = {**way.session.hello, **change}
        way.chain.restart()
        assert why in str(way.chain.stopped)
        assert way.chain.poll_send() is None
    way.near.machine.forwards.set_next("hq", None)
    way.near.run()
    way.chain.restart()
    assert way.chain.stopped is None


def test_a_rule_that_leads_to_its_own_store_stops() -> None:
    near = Desk(forward=(rule(),))
    way = Line(near, near)
    assert "is this store itself" in str(way.chain.stopped)


def test_a_restored_first_store_forwards_on_another_transport_chain() -> None:
    way = line()
    former = way.chain.chain
    assert former == zlib.crc32(f"hq/{way.near.log.incarnation}".encode())
    way.near.log.renew(b"\1" * 16)
    way.connect()
    assert way.chain.chain != former


# --- circles ---


def test_topics_that_two_stores_forward_to_each_other_are_taken_once() -> None:
    one = Desk(forward=(rule("orders/>"),), store_id=7)
    two = Desk(forward=(rule("orders/>"),), store_id=8)
    there, back = Line(one, two), Line(two, one)
    one.client("p").send("orders/1", b"1")
    two.client("q").send("orders/1", b"2")
    for _ in range(3):
        there.run()
        back.run()
    assert sorted(bodies(one)) == sorted(bodies(two)) == [b"1", b"2"]
    assert (waiting(one), waiting(two)) == (0, 0)


def test_a_queue_that_is_forwarded_in_a_circle_ends_in_the_dead_letters() -> None:
    one = Desk(forward=(rule("_queue/q"),), store_id=7)
    two = Desk(forward=(rule("_queue/q"),), store_id=8)
    there, back = Line(one, two), Line(two, one)
    one.client("p").put("q", b"1")
    for _ in range(3):
        there.run()
        back.connect()
        back.run()
    assert bodies(two, "_queue/dead-letters") == [b"1"]
    assert "the rules lead in a circle" in back.given_up[0][2]


# --- publishers that change stores ---


def roam(client: Client, topic: str, *texts: bytes, elsewhere: int, first: int) -> None:
    messages = [(number, 1, rows.record(topic, body)) for number, body in enumerate(texts, first)]
    content = rows.encode(client.publisher, 5, messages)
    client.tell(
        "send", publisher=client.publisher, chain=5, after=elsewhere, elsewhere=elsewhere, rows=content
    )
    client.desk.run()


def test_a_publisher_that_changed_stores_is_neither_doubled_nor_lost() -> None:
    way = line()
    publisher = way.near.client("p", publisher=77)
    publisher.send("orders/1", b"1", b"2", b"3")
    # It knows of 2, and goes on at the other store, before anything was forwarded.
    roamed = way.far.client("p", publisher=77)
    roam(roamed, "orders/1", b"3", b"4", elsewhere=2, first=3)
    assert roamed.stored() == [4]
    way.run()
    assert sorted(bodies(way.far)) == [b"1", b"2", b"3", b"4"]
    way.far.crash()
    way.connect()
    way.near.client("q").send("orders/1", b"5")
    way.run()
    assert sorted(bodies(way.far)) == [b"1", b"2", b"3", b"4", b"5"]


def test_the_store_in_the_middle_tells_that_messages_before_are_still_to_come() -> None:
    near = Desk(forward=(rule("orders/>"),), store_id=7)
    middle = Desk(forward=(rule("orders/>"),), store_id=8)
    far = Desk(store_id=9)
    first, second = Line(near, middle), Line(middle, far)
    near.client("p", publisher=77).send("orders/1", b"1", b"2")
    roam(middle.client("p", publisher=77), "orders/1", b"3", elsewhere=2, first=3)
    second.run()
    assert bodies(far) == [b"3"]
    first.run()
    second.run()
    assert sorted(bodies(far)) == [b"1", b"2", b"3"]


def test_a_store_that_others_forward_to_says_that_messages_may_come() -> None:
    way = line()
    publisher = way.far.client("p", publisher=77)
    publisher.send("orders/1", b"9", after=8)
    way.run()
    publisher.send("orders/1", b"9", after=8)
    assert [body.get("awaits") for body in publisher.refused()] == [None, True]


def test_numbers_are_runs_that_grow_at_their_end() -> None:
    desk = Desk()
    core = Core(desk.log, (">",), 16)
    numbers = Numbers(core)
    assert numbers.known((1, 5), 7) == [(0, 7)]
    numbers.add((1, 5), 7, 7, 9)
    assert len(numbers) == 0, "one run from 0 needs no note"
    numbers.add((1, 5), 9, 20, 22)
    numbers.add((1, 5), 22, 22, 25)
    numbers.add((1, 5), 25, 0, 12)
    assert numbers.known((1, 5), 25) == [(0, 12), (20, 25)]
    numbers.add((1, 5), 25, 0, 20)
    assert numbers.known((1, 5), 25) == [(0, 20), (20, 25)], "what filled the gap came later"
    for at in range(100, 100 + 3 * RUNS_MAX, 2):
        numbers.add((1, 5), at - 1, at, at + 1)
    assert len(numbers.known((1, 5), 0)) == RUNS_MAX
    core.appended("there is no room")
    assert numbers.known((1, 5), 9) == [(0, 9)]


def test_forwarding_reads_what_a_plain_reader_finds() -> None:
    desk = Desk()
    publisher = desk.client("p")
    for number in range(50):
        publisher.send("orders/1" if number % 3 else "local", b"%d" % number)
    at, found = 0, []
    while at < desk.log.durable_end:
        content, at, count, messages, _ = forward_rows(
            desk.log, at, desk.log.durable_end, ["orders/>"], 7, 1 << 20, desk.now.wall_us
        )
        assert count == messages <= 7
        found += [rows.body_of(row.record) for row in rows.decode(content, 0)]
    assert found == bodies(desk, "orders/>")
