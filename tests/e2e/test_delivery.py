"""Programs on one machine: every message, in order, once, to everybody who asked."""

import time

import pytest
from conftest import StartPeers
from programs import Failure, Peer, Program, run_script

MIXED = [16, 64, 1400, 1401, 20_000, 300_000, 100, 5_000_000, 0, 4096]


def whole(answer: dict, source: int, count: int, first: int = 0) -> None:
    """Everything of a source arrived, in order and once."""
    tally = answer["received"][str(source)]
    assert tally == {"first": first, "next": first + count, "count": count, "skipped": 0, "faults": []}


def meet(publishers: list[Peer], subscribers: list[Peer], pattern: str = "t/>", topic: str = "t/x") -> None:
    for subscriber in subscribers:
        subscriber.ask("subscribe", pattern=pattern)
    for publisher in publishers:
        publisher.ask("wait_for_subscribers", topic=topic, count=len(subscribers))


@pytest.mark.parametrize("count", [1, 3])
def test_everybody_gets_everything_in_order(start: StartPeers, count: int) -> None:
    publisher, *subscribers = start(1 + count)
    meet([publisher], subscribers)
    publisher.ask("publish", topic="t/x", count=20_000, sizes=[64, 200])
    publisher.ask("flush", timeout_s=60)
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=20_000), 0, 20_000)
    for peer in (publisher, *subscribers):
        assert not [e for e in peer.ask("told")["events"] if e["event"] in ("MessagesLost", "Unreadable")]


def test_messages_of_every_size_up_to_five_megabytes_arrive_in_order(start: StartPeers) -> None:
    publisher, *subscribers = start(3)
    meet([publisher], subscribers)
    publisher.ask("publish", topic="t/x", count=40, sizes=MIXED)
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=40), 0, 40)


def test_three_publishers_and_three_subscribers_at_once(start: StartPeers) -> None:
    publishers, subscribers = start(3), start(3)
    meet(publishers, subscribers)
    for source, publisher in enumerate(publishers):
        publisher.tell("publish", topic="t/x", count=4000, sizes=[100, 3000, 20], source=source)
    for publisher in publishers:
        publisher.answer()
    for subscriber in subscribers:
        for source in range(3):
            answer = subscriber.ask("wait_received", pattern="t/>", source=source, count=4000)
            whole(answer, source, 4000)


def test_a_program_that_publishes_and_subscribes_gets_its_own_messages_once(start: StartPeers) -> None:
    both, other = start(2)
    meet([other], [both])
    meet([both], [other])
    for source, peer in enumerate((both, other)):
        peer.ask("publish", topic="t/x", count=2000, sizes=[100], source=source)
    for peer in (both, other):
        for source in range(2):
            whole(peer.ask("wait_received", pattern="t/>", source=source, count=2000), source, 2000)


def test_one_message_of_a_hundred_megabytes_arrives(start: StartPeers) -> None:
    publisher, subscriber = start(2)
    meet([publisher], [subscriber])
    publisher.ask("publish", topic="t/x", count=1, sizes=[100_000_000])
    publisher.ask("publish", topic="t/x", count=1, sizes=[10], start=1)
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=2), 0, 2)


def test_a_message_over_the_bound_is_refused_with_the_bound_and_the_next_one_goes(start: StartPeers) -> None:
    publisher, subscriber = start(2, message_bytes_max=100_000)
    meet([publisher], [subscriber])
    with pytest.raises(Failure, match="100000") as refusal:
        publisher.ask("publish", topic="t/x", count=1, sizes=[100_001])
    assert refusal.value.name == "MessageTooLongError"
    publisher.ask("publish", topic="t/x", count=1, sizes=[99_000])
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=1), 0, 1)


def test_every_priority_class_keeps_its_order_and_urgent_messages_overtake(start: StartPeers) -> None:
    publisher, subscriber = start(2, rate_bytes_per_s=10_000_000)
    meet([publisher], [subscriber])
    for source, priority in enumerate((0, 4, 9)):
        publisher.tell(
            "publish_aside",
            source=source,
            topic="t/x",
            count=600 if priority < 9 else 60,
            sizes=[5000],
            priority=priority,
        )
        publisher.answer()
    urgent = subscriber.ask("wait_received", pattern="t/>", source=2, count=60)
    low = urgent["received"].get("0", {"count": 0})
    assert low["count"] < 600
    for source, count in ((0, 600), (1, 600), (2, 60)):
        whole(subscriber.ask("wait_received", pattern="t/>", source=source, count=count), source, count)


def test_a_request_is_answered_by_another_program(start: StartPeers) -> None:
    asker, answerer = start(2)
    answerer.ask("subscribe", pattern="ask/*", reply=True)
    asker.ask("wait_for_subscribers", topic="ask/me", count=1)
    for number in range(20):
        answer = asker.ask("request", topic="ask/me", body=number, timeout_s=60)
        assert answer["body"] == {"asked": number, "by": answerer.node}


ASKS_FROM_A_FULL_QUEUE = """
import sys, threading, time, shoal

def wait_until_nothing_comes():
    before = None
    while before != (before := bus.stats()["segments_received"]):
        time.sleep(0.2)

def ask(message):
    if not answered.is_set():
        wait_until_nothing_comes()
        print(bus.request("ask", "now", timeout_s=60).body["asked"])
        answered.set()

with shoal.connect(sys.argv[1]) as bus:
    answered = threading.Event()
    other = bus.subscribe("other")
    bus.subscribe("t/>", ask, queue_bytes_max=1 << 16)
    assert answered.wait(60)
    assert other.receive(60).body == "heard"
"""


def test_a_callback_whose_queue_is_full_gets_answers_and_holds_no_other_sender_back(
    start: StartPeers, url: str
) -> None:
    flooding, other = start(2, slow_after_s=60)
    flooding.ask("subscribe", pattern="ask", reply=True)
    asker = Program(["-c", ASKS_FROM_A_FULL_QUEUE, url])
    try:
        flooding.ask("wait_for_subscribers", topic="t/x", count=1)
        other.ask("wait_for_subscribers", topic="other", count=1)
        flooding.ask("publish_aside", source=0, topic="t/x", count=3000, sizes=[10_000])
        other.ask("publish_text", topic="other", text="heard")
        asker.finish(30)
    finally:
        asker.kill()


def test_a_request_that_nobody_answers_fails_in_time(start: StartPeers) -> None:
    asker, _ = start(2)
    began = time.monotonic()
    with pytest.raises(Failure, match=r"'ask/nobody' within 0\.3 s") as refusal:
        asker.ask("request", topic="ask/nobody", body=1, timeout_s=0.3)
    assert refusal.value.name == "NoReplyError"
    assert time.monotonic() - began < 15


def test_what_was_flushed_arrives_even_if_the_publisher_is_killed_next(start: StartPeers) -> None:
    publisher, *subscribers = start(3)
    meet([publisher], subscribers)
    publisher.ask("publish", topic="t/x", count=3000, sizes=[1000, 50_000])
    publisher.ask("flush", timeout_s=60)
    publisher.kill()
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=3000), 0, 3000)


def test_a_fresh_publisher_loses_nothing_to_those_who_are_there(start: StartPeers, url: str) -> None:
    subscribers = start(2)
    for subscriber in subscribers:
        subscriber.ask("subscribe", pattern="t/>")
    script = """
import sys, shoal
from traffic import make_body
with shoal.connect(sys.argv[1]) as bus:
    for number in range(int(sys.argv[2])):
        bus.publish("t/x", make_body(int(sys.argv[3]), number, 1000))
"""
    for source, count in enumerate((1, 20, 5000)):
        ran = run_script(script, url, str(count), str(source))
        assert (ran.returncode, ran.stderr) == (0, "")
        for subscriber in subscribers:
            whole(subscriber.ask("wait_received", pattern="t/>", source=source, count=count), source, count)


def test_a_late_joiner_gets_everything_from_its_welcome_on(start: StartPeers) -> None:
    publisher, early = start(2)
    meet([publisher], [early])
    publisher.ask(
        "publish_aside", source=0, topic="t/x", count=1_000_000, sizes=[500], every_s=0.0001, for_s=4
    )
    # Whoever comes within two seconds is taken for somebody who was there before.
    time.sleep(2.1)
    (late,) = start(1)
    late.ask("subscribe", pattern="t/>")
    count = publisher.ask("wait_published", source=0)["published"]
    # On a busy machine it may come when all of that was said.
    publisher.ask("wait_for_subscribers", topic="t/x", count=2)
    publisher.ask("publish", topic="t/x", count=100, sizes=[500], start=count)
    count += 100
    publisher.ask("flush", timeout_s=60)
    whole(early.ask("wait_received", pattern="t/>", source=0, count=count), 0, count)
    tally = late.ask("wait_next", pattern="t/>", source=0, number=count)["received"]["0"]
    assert 0 < tally["first"] < count
    assert (tally["skipped"], tally["faults"]) == (0, [])


def test_a_publisher_that_starts_again_is_heard_again(start: StartPeers, url: str) -> None:
    (subscriber,) = start(1)
    subscriber.ask("subscribe", pattern="t/>")
    nodes = []
    for source in range(3):
        (publisher,) = start(1)
        publisher.ask("wait_for_subscribers", topic="t/x", count=1)
        publisher.ask("publish", topic="t/x", count=500, sizes=[100], source=source)
        publisher.ask("flush", timeout_s=60)
        nodes.append(publisher.node)
        if source == 1:
            publisher.kill()
        else:
            publisher.ask("close")
            subscriber.ask("wait_event", event="MemberLeft", node=publisher.node)
        whole(subscriber.ask("wait_received", pattern="t/>", source=source, count=500), source, 500)
    assert len(set(nodes)) == 3


def test_unsubscribing_ends_what_a_publisher_sends(start: StartPeers) -> None:
    publisher, subscriber = start(2)
    meet([publisher], [subscriber])
    subscriber.ask("unsubscribe", pattern="t/>")
    subscriber.ask("subscribe", pattern="other")
    publisher.ask("wait_for_subscribers", topic="other", count=1)
    # Whatever is published soon after connecting is sent in any case.
    time.sleep(2.1)
    before = publisher.ask("stats")["stats"]["segments_sent"]
    publisher.ask("publish", topic="t/x", count=1000, sizes=[1000])
    assert publisher.ask("stats")["stats"]["segments_sent"] - before < 100


def test_programs_come_and_go_politely(start: StartPeers) -> None:
    staying, leaving = start(2)
    staying.ask("wait_event", event="MemberJoined", node=leaving.node)
    assert leaving.ask("close")["seconds"] < 1
    left = staying.ask("wait_event", event="MemberLeft", node=leaving.node)
    assert left["failed"] is False
    for peer in (staying, leaving):
        peer.finish()


def test_domains_that_share_a_group_do_not_hear_each_other(start: StartPeers) -> None:
    (publisher, here), (elsewhere,) = start(2, domain="desk"), start(1, domain="floor")
    for subscriber in (here, elsewhere):
        subscriber.ask("subscribe", pattern=">")
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    publisher.ask("publish", topic="t/x", count=100, sizes=[100])
    publisher.ask("flush", timeout_s=60)
    whole(here.ask("wait_received", pattern=">", source=0, count=100), 0, 100)
    assert elsewhere.ask("received", pattern=">")["received"] == {}
    for peer in (publisher, here):
        joined = [event["node"] for event in peer.ask("told")["events"] if event["event"] == "MemberJoined"]
        assert elsewhere.node not in joined
    assert [event["event"] for event in elsewhere.ask("told")["events"]] == ["LinkUp"]
