"""Routers between programs: over TCP, and between multicast groups."""

import asyncio
import contextlib
import functools
import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from programs import Peer, loopback_url

import shoal
import shoal.aio

WITHIN_S = 60.0


@pytest.fixture
def open_bus() -> Iterator[Callable[..., shoal.Bus]]:
    """Makes connections that are closed in the end."""
    with contextlib.ExitStack() as stack:

        def made(bus: shoal.Bus) -> shoal.Bus:
            stack.callback(bus.close, 0)
            return bus

        yield made


def group() -> str:
    return f"239.192.74.{random.randrange(10, 250)}:{random.randrange(20_000, 30_000)}"


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_programs_that_connect_to_a_router_hear_each_other(open_bus: Callable[..., shoal.Bus]) -> None:
    router = open_bus(shoal.listen("tcp://127.0.0.1:0", router=True))
    url = router.links[0].url
    publisher, other = open_bus(shoal.connect(url)), open_bus(shoal.connect(url))
    with other.subscribe("prices/*", selector="region = 'EU'") as subscription:
        assert publisher.wait_for_subscribers("prices/ACME", 1, WITHIN_S)
        for number in range(1000):
            region = "EU" if number % 2 else "US"
            publisher.publish("prices/ACME", number, properties={"region": region})
        for number in range(1, 1000, 2):
            message = subscription.receive(WITHIN_S)
            assert message is not None
            assert (message.body, message.publisher) == (number, publisher.publisher)
            assert message.message_id == publisher.message_id(number + 1)
        assert not [event for event in other.events(timeout_s=0) if isinstance(event, shoal.MessagesLost)]


def test_everybody_behind_a_router_answers(open_bus: Callable[..., shoal.Bus]) -> None:
    router = open_bus(shoal.listen("tcp://127.0.0.1:0", router=True))
    url = router.links[0].url
    for name in range(3):
        answerer = open_bus(shoal.connect(url))
        answer = functools.partial(lambda bus, name, question: bus.reply(question, name), answerer, name)
        answerer.subscribe("who", answer, wait=True)
    asker = open_bus(shoal.connect(url))
    assert asker.wait_for_subscribers("who", 1, WITHIN_S)
    assert sorted(answer.body for answer in asker.request_many("who", timeout_s=2.0)) == [0, 1, 2]
    assert len(list(asker.request_many("who", timeout_s=WITHIN_S, responders=3))) == 3

    async def ask() -> list[int]:
        async with shoal.aio.connect(url) as bus:
            assert await bus.wait_for_subscribers("who", 1, WITHIN_S)
            return sorted([answer.body async for answer in bus.request_many("who", timeout_s=2.0)])

    assert asyncio.run(ask()) == [0, 1, 2]


def test_two_groups_are_joined_by_routers_and_what_nobody_wants_does_not_cross(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    here, there = group(), group()
    one = open_bus(shoal.connect(f"norm://{here}", interface="lo", router=True))
    two = open_bus(shoal.connect(f"norm://{there}", interface="lo", router=True))
    two.connect(one.listen("tcp://127.0.0.1:0"))
    publisher = open_bus(shoal.connect(f"norm://{here}", interface="lo"))
    reader = open_bus(shoal.connect(f"norm://{there}", interface="lo"))
    with reader.subscribe("wanted/>") as subscription:
        assert publisher.wait_for_subscribers("wanted/x", 1, WITHIN_S)
        for number in range(2000):
            publisher.publish("wanted/x", number)
            publisher.publish("unwanted/x", bytes(1000))
        found = [subscription.receive(WITHIN_S) for _ in range(2000)]
    assert [message and message.body for message in found] == list(range(2000))
    assert {message and message.publisher for message in found} == {publisher.publisher}
    (link,) = [link for link in two.links if link.role == "connect"]
    assert link.bytes_received < 500_000, "what nobody wants stays where it is"
    assert (link.messages_received, link.resting) == (2000, False)
    network = {node.publisher: node for node in one.network}
    assert set(network) == {one.publisher, two.publisher}
    assert all(node.router for node in network.values())
    assert two.publisher in {far for link in network[one.publisher].links for far in link.neighbours}


def test_a_router_may_be_on_two_groups_itself_and_answers_find_their_way(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    here, there = group(), group()
    router = open_bus(shoal.connect(f"norm://{here}", interface="lo", router=True))
    router.connect(f"norm://{there}?interface=lo")
    asker = open_bus(shoal.connect(f"norm://{here}", interface="lo"))
    answerer = open_bus(shoal.connect(f"norm://{there}", interface="lo"))
    answerer.subscribe("double", lambda message: answerer.reply(message, 2 * message.body))
    assert asker.wait_for_subscribers("double", 1, WITHIN_S)
    assert asker.request("double", 21, timeout_s=WITHIN_S).body == 42
    router.close()
    wait_until(lambda: not asker.subscribers("double"), "the router is gone, and what it asked for")


def test_inproc_connections_have_nothing_to_route(open_bus: Callable[..., shoal.Bus]) -> None:
    with pytest.raises(shoal.ConfigError, match="router means nothing on inproc://"):
        open_bus(shoal.connect("inproc://here", router=True))
    bus = open_bus(shoal.connect("inproc://here"))
    with pytest.raises(shoal.ConfigError, match="inproc"):
        bus.connect("norm://")


def bodies(subscription: shoal.Subscription, count: int) -> list[object]:
    """The next messages' bodies."""
    found = [subscription.receive(WITHIN_S) for _ in range(count)]
    return [message and message.body for message in found]


def goes_through(publisher: shoal.Bus, subscription: shoal.Subscription, topic: str) -> bool:
    """Whether what is published now arrives soon; what was published before it is read, too."""
    publisher.publish(topic, "probe")
    return subscription.receive(0.1) is not None


def read_rest(subscription: shoal.Subscription) -> None:
    while subscription.receive(0.5) is not None:
        pass


def test_of_two_routers_between_the_same_groups_one_passes_on_and_the_other_when_that_is_gone(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    here, there = group(), group()
    routers = [open_bus(shoal.connect(f"norm://{here}", interface="lo", router=True)) for _ in range(2)]
    for router in routers:
        router.connect(f"norm://{there}?interface=lo")
    publisher = open_bus(shoal.connect(f"norm://{here}", interface="lo"))
    reader = open_bus(shoal.connect(f"norm://{there}", interface="lo"))
    subscription = reader.subscribe("t", wait=True)
    wait_until(lambda: goes_through(publisher, subscription, "t"), "there is a way")
    read_rest(subscription)
    for number in range(1000):
        publisher.publish("t", number)
    publisher.flush(WITHIN_S)
    assert bodies(subscription, 1000) == list(range(1000))
    assert subscription.receive(0.2) is None, "nothing comes twice"
    routers.pop(0).close()
    wait_until(lambda: goes_through(publisher, subscription, "t"), "there is another way")
    read_rest(subscription)
    for number in range(1000):
        publisher.publish("t", number)
    publisher.flush(WITHIN_S)
    assert bodies(subscription, 1000) == list(range(1000))
    assert subscription.receive(0.2) is None


def test_a_program_with_links_to_two_routers_neither_doubles_nor_loses(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    one, two = (open_bus(shoal.listen("tcp://127.0.0.1:0", router=True)) for _ in range(2))
    two.connect(one.links[0].url)
    client = open_bus(shoal.connect(one.links[0].url))
    client.connect(two.links[0].url)
    others = [open_bus(shoal.connect(router.links[0].url)) for router in (one, two)]
    mine, *theirs = [bus.subscribe("t", wait=True) for bus in (client, *others)]
    for subscription in theirs:
        wait_until(lambda reads=subscription: goes_through(client, reads, "t"), "there is a way to it")
    for bus in others:
        wait_until(lambda publishes=bus: goes_through(publishes, mine, "t"), "there is a way from it")
    for subscription in (mine, *theirs):
        read_rest(subscription)
    for number in range(1000):
        for bus in (client, *others):
            bus.publish("t", number)
    for bus in (client, *others):
        bus.flush(WITHIN_S)
    for subscription in (mine, *theirs):
        found = [subscription.receive(WITHIN_S) for _ in range(3000)]
        for bus in (client, *others):
            of_bus = [each.body for each in found if each and each.publisher == bus.publisher]
            assert of_bus == list(range(1000))
        assert subscription.receive(0.2) is None, "nothing comes twice"


def test_no_local_holds_behind_routers(open_bus: Callable[..., shoal.Bus]) -> None:
    router = open_bus(shoal.listen("tcp://127.0.0.1:0", router=True))
    url = router.links[0].url
    here, there = open_bus(shoal.connect(url)), open_bus(shoal.connect(url))
    own, other = here.subscribe("t", no_local=True, wait=True), there.subscribe("t", no_local=True, wait=True)
    wait_until(lambda: goes_through(here, other, "t"), "there is a way")
    wait_until(lambda: goes_through(there, own, "t"), "and one back")
    read_rest(own)
    read_rest(other)
    here.publish("t", "here")
    there.publish("t", "there")
    assert (bodies(own, 1), bodies(other, 1)) == (["there"], ["here"])
    assert own.receive(0.2) is None
    assert other.receive(0.2) is None


def test_a_slow_reader_behind_a_router_is_told_what_it_lost_though_nothing_more_comes(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    router = open_bus(shoal.listen("tcp://127.0.0.1:0", router=True, slow_after_s=0.2))
    url = router.links[0].url
    publisher, fast, slow = (open_bus(shoal.connect(url)) for _ in range(3))
    arrived = threading.Semaphore(0)
    fast.subscribe("a", lambda _: arrived.release(), wait=True)
    subscription = slow.subscribe("a", wait=True)
    assert publisher.wait_for_subscribers("a", 1, WITHIN_S)
    count = 3000
    for number in range(count):
        publisher.publish("a", [number, "x" * 10_000])
    for _ in range(count):
        assert arrived.acquire(timeout=WITHIN_S)
    publisher.close()
    got: set[int] = set()
    lost: set[int] = set()

    def is_told() -> bool:
        got.update(message.body[0] for message in subscription.receive_nowait() or [])
        for event in slow.events(timeout_s=0):
            if isinstance(event, shoal.MessagesLost):
                lost.update(range(event.first - 1, event.last))
        return len(got | lost) == count

    wait_until(is_told, "the reader lacks messages that nobody told it of")
    assert lost
    assert not lost & got


def test_flushing_and_closing_name_who_lost_messages_behind_a_router(
    open_bus: Callable[..., shoal.Bus], caplog: pytest.LogCaptureFixture
) -> None:
    router = open_bus(shoal.listen("tcp://127.0.0.1:0", router=True, slow_after_s=0.2))
    url = router.links[0].url
    first, second, fast, slow = (open_bus(shoal.connect(url)) for _ in range(4))
    arrived = threading.Semaphore(0)
    fast.subscribe("a", lambda _: arrived.release(), wait=True)
    subscription = slow.subscribe("a", wait=True)
    for publisher in (first, second):
        assert publisher.wait_for_subscribers("a", 1, WITHIN_S)
        for number in range(3000):
            publisher.publish("a", [number, "x" * 10_000])
        for _ in range(3000):
            assert arrived.acquire(timeout=WITHIN_S)

    def flushed() -> shoal.FlushError | None:
        subscription.receive_nowait()
        try:
            first.flush(0.2)
        except shoal.FlushError as error:
            return error if error.lost_by else None
        raise AssertionError("the slow reader lacks messages, and the flush is silent")

    wait_until(lambda: flushed() is not None, "the slow reader does not get on")
    first.flush(WITHIN_S)
    first.publish("a", [0, "everybody gets this"])
    read_rest(subscription)
    assert first.close(), "each loss is told once"
    read_rest(subscription)
    caplog.clear()
    assert not second.close()
    (line,) = [line for line in caplog.messages if line.startswith("SHOAL-2119")]
    assert f"did not take them in time: {slow.node}." in line


def test_a_flush_that_is_not_confirmed_in_time_names_the_program_behind_routers_that_stands_still(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    near, far = (open_bus(shoal.listen("tcp://127.0.0.1:0", router=True)) for _ in range(2))
    near_url, far_url = near.links[0].url, far.links[0].url
    far.connect(near_url)
    publisher, well = open_bus(shoal.connect(near_url)), open_bus(shoal.connect(far_url))
    stands = Peer(far_url).connected()
    try:
        stands.ask("subscribe", pattern="t")
        read = well.subscribe("t", wait=True)
        assert publisher.wait_for_subscribers("t", 1, WITHIN_S)
        publisher.sync(WITHIN_S)
        stands.freeze()
        publisher.publish("t", "somebody lacks this")
        assert read.receive(WITHIN_S) is not None

        def silent() -> tuple[int, ...]:
            with pytest.raises(shoal.FlushError) as raised:
                publisher.flush(3.0)
            return raised.value.silent

        wait_until(lambda: silent() == (stands.node,), "another one is named")
    finally:
        stands.kill()


def test_a_tcp_client_that_stands_still_holds_up_no_publisher_while_multicast_readers_have_room(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    lan = loopback_url()
    broker = open_bus(shoal.listen("tcp://127.0.0.1:0", router=True))
    url = broker.links[0].url
    broker.connect(lan)
    reader, publisher = open_bus(shoal.connect(lan)), open_bus(shoal.connect(url))
    arrived = threading.Semaphore(0)
    reader.subscribe("t", lambda _: arrived.release(), wait=True)
    stands = Peer(url).connected()
    try:
        stands.ask("subscribe", pattern="t")
        publisher.sync(WITHIN_S)
        assert publisher.wait_for_subscribers("t", 1, WITHIN_S)
        stands.freeze()
        for _ in range(3000):
            publisher.publish("t", b"x" * 10_000, timeout_s=WITHIN_S)
        for _ in range(3000):
            assert arrived.acquire(timeout=WITHIN_S)
        slow = [event for event in broker.events(timeout_s=0) if isinstance(event, shoal.MemberSlow)]
        assert [event.node for event in slow] == [stands.node]
    finally:
        stands.kill()


#: It ends with whoever started it.
ROUTER = """
import shoal, sys
router = shoal.listen("tcp://127.0.0.1:0", router=True)
print(router.links[0].url, flush=True)
for url in sys.argv[1:]:
    router.connect(url)
sys.stdin.read()
"""


def test_a_router_that_was_killed_accuses_nobody_if_another_one_serves_all(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    with contextlib.ExitStack() as stack:

        def start(*urls: str) -> tuple[subprocess.Popen[str], str]:
            command = [sys.executable, "-c", ROUTER, *urls]
            router = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(router.kill)
            assert router.stdout is not None
            return router, router.stdout.readline().strip()

        first, url = start()
        _, other_url = start(url)
        publisher, reader = (open_bus(shoal.connect(url)) for _ in range(2))
        for bus in (publisher, reader):
            bus.connect(other_url)
        wait_until(lambda: sum(link.state == "up" for link in publisher.links) == 2, "it has one link")
        wait_until(lambda: sum(link.state == "up" for link in reader.links) == 2, "it has one link")
        got: list[int] = []
        reader.subscribe("t", lambda message: got.append(message.body[0]), wait=True)
        assert publisher.wait_for_subscribers("t", 1, WITHIN_S)

        numbers = itertools.count()

        def publish() -> None:
            for number in itertools.islice(numbers, 100):
                publisher.publish("t", [number, "x" * 10_000])
            publisher.flush(WITHIN_S)

        publish()
        first.kill()
        # What it has no room for while it is missed is dropped there, and comes the other way.
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            publish()
        count = next(numbers)
        wait_until(lambda: len(got) >= count, "not everything came")
        assert got == list(range(count))


def test_what_only_its_publisher_wants_without_its_own_goes_over_no_link(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    router = open_bus(shoal.listen("tcp://127.0.0.1:0", router=True))
    url = router.links[0].url
    here, there = open_bus(shoal.connect(url)), open_bus(shoal.connect(url))
    here.subscribe("t", no_local=True, wait=True)
    wanted = there.subscribe("wanted", wait=True)
    wait_until(lambda: goes_through(here, wanted, "wanted"), "there is a way")
    (link,) = here.links
    for number in range(100):
        here.publish("t", number)
    here.flush(WITHIN_S)
    assert here.links[0].messages_sent == link.messages_sent


def test_of_multicast_and_tcp_between_two_programs_one_is_used_and_the_other_when_that_is_gone(
    open_bus: Callable[..., shoal.Bus],
) -> None:
    where = group()
    publisher = open_bus(shoal.connect(f"norm://{where}", interface="lo"))
    reader = open_bus(shoal.connect(f"norm://{where}", interface="lo"))
    reader.connect(publisher.listen("tcp://127.0.0.1:0"))
    subscription = reader.subscribe("t", wait=True)
    wait_until(lambda: goes_through(publisher, subscription, "t"), "there is a way")

    def rests() -> bool:
        return any(link.resting for link in publisher.links if link.role == "accept")

    wait_until(rests, "tcp rests beside multicast")
    read_rest(subscription)
    for number in range(500):
        publisher.publish("t", number)
    publisher.flush(WITHIN_S)
    assert bodies(subscription, 500) == list(range(500))
    assert subscription.receive(0.2) is None, "nothing comes twice"
    reader.disconnect(f"norm://{where}")
    for number in range(500, 1000):
        publisher.publish("t", number)
        time.sleep(0.001)
    publisher.publish("t", "last")
    found: list[object] = []
    while "last" not in found:
        found += bodies(subscription, 1)
    assert found == [*range(500, 1000), "last"], "neither lost nor doubled"
