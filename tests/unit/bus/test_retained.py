"""Last values: what a new subscriber gets first."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

import shoal
from shoal import aio
from shoal.bus import retained

PATIENCE_S = 10.0


@pytest.fixture(params=["inproc", "tcp", "router", "norm"])
def pair(request: pytest.FixtureRequest, domain: str) -> Iterator[tuple[shoal.Bus, shoal.Bus]]:
    """A publisher and a subscriber, on every kind of link."""
    match request.param:
        case "inproc":
            with shoal.connect(domain) as one, shoal.connect(domain) as other:
                yield one, other
        case "tcp":
            with (
                shoal.listen("tcp://127.0.0.1:0", heartbeat_s=0.2) as one,
                shoal.connect(one.links[0].url) as other,
            ):
                yield one, other
        case "router":
            with shoal.listen("tcp://127.0.0.1:0", heartbeat_s=0.2, router=True) as middle:
                url = middle.links[0].url
                with shoal.connect(url) as one, shoal.connect(url) as other:
                    yield one, other
        case _:
            name = domain.removeprefix("inproc://")
            options = {"domain": name, "heartbeat_s": 0.2}
            with (
                shoal.connect("norm://?interface=lo", **options) as one,
                shoal.connect("norm://?interface=lo", **options) as other,
            ):
                yield one, other


def bodies(subscription: shoal.Subscription, count: int) -> list[object]:
    found = [subscription.receive(PATIENCE_S) for _ in range(count)]
    return [None if message is None else message.body for message in found]


def test_a_new_subscriber_gets_the_last_value_and_then_what_comes(pair: tuple[shoal.Bus, shoal.Bus]) -> None:
    publisher, subscriber = pair
    for number in range(3):
        publisher.publish("prices/ACME", number, retain=True, properties={"n": number})
    with subscriber.subscribe("prices/*", retained=True) as prices:
        first = prices.receive(PATIENCE_S)
        assert first is not None
        assert (first.topic, first.body, first.properties) == ("prices/ACME", 2, {"n": 2})
        assert first.publisher == publisher.publisher
        publisher.publish("prices/ACME", 3, retain=True)
        publisher.publish("prices/OTHER", 4)
        assert bodies(prices, 2) == [3, 4]
        assert prices.receive(0.1) is None


def test_there_is_no_gap_and_no_duplicate_while_it_is_published(pair: tuple[shoal.Bus, shoal.Bus]) -> None:
    publisher, subscriber = pair
    publisher.publish("tick", 0, retain=True)
    over = threading.Event()

    def publish() -> None:
        number = 0
        while not over.is_set():
            number += 1
            publisher.publish("tick", number, retain=True)
            # Not so fast that the queue of a subscription that waits for its values fills.
            over.wait(0.0005)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for _ in range(3):
            with subscriber.subscribe("tick", retained=True) as ticks:
                seen = bodies(ticks, 100)
                first = seen[0]
                assert isinstance(first, int)
                assert seen == list(range(first, first + 100))
    finally:
        over.set()
        thread.join()


def test_once_every_member_is_known_a_fetch_ends_with_their_answers(
    pair: tuple[shoal.Bus, shoal.Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, subscriber = pair
    publisher.publish("a", 1, retain=True)
    assert subscriber.wait_for_subscribers(retained.FETCH, timeout_s=PATIENCE_S)
    monkeypatch.setattr(retained, "MEMBERS_S", 0.0)
    if subscriber._connection.node.routers:
        monkeypatch.setattr(retained, "QUIET_S", 0.2)
    else:
        monkeypatch.setattr(retained, "QUIET_S", 10 * PATIENCE_S)
        monkeypatch.setattr(retained, "FETCH_S", 10 * PATIENCE_S)
    began = time.monotonic()
    with subscriber.subscribe("a", retained=True) as values:
        assert bodies(values, 1) == [1]
    took_s = time.monotonic() - began
    is_bounded = bool(subscriber._connection.node.routers)
    assert took_s >= 0.2 if is_bounded else took_s < PATIENCE_S


def test_every_publisher_has_its_own_last_value(domain: str, bus: shoal.Bus, other: shoal.Bus) -> None:
    bus.publish("a", "of one", retain=True)
    other.publish("a", "of another", retain=True)
    with shoal.connect(domain) as third, third.subscribe("a", retained=True) as values:
        assert set(bodies(values, 2)) == {"of one", "of another"}
        bus.close()
    with shoal.connect(domain) as third, third.subscribe("a", retained=True) as values:
        assert bodies(values, 1) == ["of another"], "a publisher keeps its value while it lives"
        assert values.receive(0) is None


@pytest.mark.parametrize("empty", [None, b"", ""])
def test_an_empty_body_deletes_the_value(bus: shoal.Bus, other: shoal.Bus, empty: object) -> None:
    bus.publish("a", 1, retain=True)
    bus.publish("a", empty, retain=True)
    with other.subscribe("a", retained=True) as values:
        assert values.receive(0) is None


def test_a_value_expires(bus: shoal.Bus, other: shoal.Bus) -> None:
    bus.publish("a", 1, retain=True, ttl_s=0.01)
    time.sleep(0.02)
    with other.subscribe("a", retained=True) as values:
        assert values.receive(0) is None


def test_values_go_through_the_filters(bus: shoal.Bus, other: shoal.Bus) -> None:
    bus.publish("a", 1, retain=True, properties={"region": "EU"})
    bus.publish("b", 2, retain=True, properties={"region": "US"})
    with other.subscribe(">", selector="region = 'US'", retained=True) as values:
        assert bodies(values, 1) == [2]
        assert values.receive(0) is None
    with bus.subscribe(">", no_local=True, retained=True) as values:
        assert values.receive(0) is None


def test_at_the_bounds_publishing_raises(bus: shoal.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "TOPICS_MAX", 2)
    monkeypatch.setattr(retained, "BYTES_MAX", 10_000)
    bus.publish("a", 1, retain=True)
    bus.publish("b", 1, retain=True)
    with pytest.raises(shoal.FullError, match="retains 2 topics"):
        bus.publish("c", 1, retain=True)
    with pytest.raises(shoal.FullError, match="at most 10000 bytes"):
        bus.publish("b", bytes(20_000), retain=True)
    bus.publish("a", retain=True)
    bus.publish("c", 1, retain=True)


def test_callbacks_get_the_values_first(bus: shoal.Bus, other: shoal.Bus) -> None:
    bus.publish("a", "value", retain=True)
    seen: list[object] = []
    done = threading.Event()

    def handle(message: shoal.Message) -> None:
        seen.append(message.body)
        if message.body == "live":
            done.set()

    for thread in (None, "shared"):
        other.subscribe("a", handle, thread=thread, retained=True)
        bus.publish("a", "live")
        assert done.wait(PATIENCE_S)
        done.clear()
    assert seen[:2] == ["value", "live"]


def test_asyncio_has_last_values(domain: str, bus: shoal.Bus) -> None:
    async def main() -> None:
        async with aio.connect(domain) as own:
            await own.publish("a", "of asyncio", retain=True)
            bus.publish("a", "of threads", retain=True)
            async with own.subscribe("a", retained=True) as values:
                found = [await values.receive(PATIENCE_S) for _ in range(2)]
                assert {one.body for one in found if one is not None} == {"of asyncio", "of threads"}
                await own.publish("a", "live")
                live = await values.receive(PATIENCE_S)
                assert live is not None
                assert live.body == "live"
            # Used at once, without awaiting it.
            async for message in own.subscribe("a", retained=True):
                assert message.body in ("of asyncio", "of threads")
                break
        with bus.subscribe("a", retained=True) as left:
            assert bodies(left, 1) == ["of threads"]

    asyncio.run(main())


def test_a_stored_subscription_has_no_last_values(bus: shoal.Bus) -> None:
    with pytest.raises(TypeError, match="retained"):
        bus.subscribe("a", shared="x", retained=True)  # type: ignore[call-overload]
