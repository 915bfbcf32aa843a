"""What a step over a link costs decides which way messages take."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import shoal

_names = itertools.count()


@pytest.fixture
def routers() -> Iterator[list[shoal.Bus]]:
    """Three, which listen and know nobody yet; the first is the root of the tree."""
    domain = f"costs-{next(_names)}"
    with ExitStack() as stack:
        three = [
            stack.enter_context(shoal.listen("tcp://127.0.0.1:0", router=True, domain=domain))
            for _ in range(3)
        ]
        yield sorted(three, key=lambda router: router.publisher)


def url_of(router: shoal.Bus) -> str:
    return next(link.url for link in router.links if link.role == "listen")


def sent_to(router: shoal.Bus, other: shoal.Bus) -> int:
    return sum(link.messages_sent for link in router.links if link.publisher == other.publisher)


def takes(straight: bool, routers: list[shoal.Bus]) -> None:
    """Wait until what the second publishes goes straight to the first, or by the third."""
    first, second, third = routers
    with first.subscribe("t") as subscription:
        deadline = time.monotonic() + 60
        first.sync()
        # A change of ways takes a moment: until then messages may come the other way.
        while True:
            before = sent_to(second, first), sent_to(second, third)
            second.publish("t", "x")
            assert subscription.receive(30)
            second.flush()
            after = sent_to(second, first), sent_to(second, third)
            if (after[0] > before[0], after[1] > before[1]) == (straight, not straight):
                break
            assert time.monotonic() < deadline, f"{before}, {after}"


@pytest.mark.parametrize(("cost", "straight"), [(None, True), (3, True), (5, False)])
def test_messages_take_the_cheapest_way(routers: list[shoal.Bus], cost: int | None, straight: bool) -> None:
    """From the second to the first: straight, or by the third at a cost of four."""
    first, second, third = routers
    second.connect(url_of(first), cost=cost)
    third.connect(url_of(first))
    second.connect(url_of(third))
    takes(straight, routers)


@pytest.mark.parametrize(("cost", "straight"), [(3, True), (5, False)])
def test_the_first_link_of_a_connection_has_a_cost(
    routers: list[shoal.Bus], cost: int, straight: bool
) -> None:
    first, _, third = routers
    domain = first.config.domain
    with shoal.connect(url_of(first), router=True, domain=domain, cost=cost) as second:
        third.connect(url_of(first))
        second.connect(url_of(third))
        takes(straight, [first, second, third])


def test_a_listener_and_a_group_have_a_cost_from_the_beginning(routers: list[shoal.Bus]) -> None:
    first, _, third = routers
    domain = first.config.domain
    with shoal.listen("tcp://127.0.0.1:0", router=True, domain=domain, cost=5) as second:
        first.connect(url_of(second))
        third.connect(url_of(first))
        second.connect(url_of(third), cost=2)
        takes(False, [first, second, third])
    with shoal.connect("norm://?interface=lo&cost=7", domain=domain) as bus:
        assert bus.config.cost == 7


@pytest.mark.parametrize("cost", [0, -1, 1_000_001, True, 1.5, "2"])
def test_what_no_step_can_cost_is_refused(routers: list[shoal.Bus], cost: object) -> None:
    with pytest.raises((shoal.ConfigError, TypeError), match="cost is"):
        routers[0].connect(url_of(routers[1]), cost=cost)  # type: ignore[arg-type]  # is refused
    with pytest.raises((shoal.ConfigError, TypeError), match="cost is"):
        routers[0].listen("tcp://127.0.0.1:0", cost=cost)  # type: ignore[arg-type]  # is refused
