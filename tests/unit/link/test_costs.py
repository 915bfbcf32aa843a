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


def sent_over(router: shoal.Bus, url: str) -> int:
    return sum(link.messages_sent for link in router.links if link.role == "connect" and link.url == url)


@pytest.mark.parametrize(("cost", "straight"), [(None, True), (3, True), (5, False)])
def test_messages_take_the_cheapest_way(routers: list[shoal.Bus], cost: int | None, straight: bool) -> None:
    """From the second to the first: straight, or by the third at a cost of four."""
    first, second, third = routers
    second.connect(url_of(first), cost=cost)
    third.connect(url_of(first))
    second.connect(url_of(third))
    with first.subscribe("t") as subscription:
        deadline = time.monotonic() + 60
        first.sync()
        # A change of ways takes a moment: until then messages may come the other way.
        while True:
            before = sent_over(second, url_of(first)), sent_over(second, url_of(third))
            second.publish("t", "x")
            assert subscription.receive(30)
            second.flush()
            after = sent_over(second, url_of(first)), sent_over(second, url_of(third))
            if (after[0] > before[0], after[1] > before[1]) == (straight, not straight):
                break
            assert time.monotonic() < deadline, f"{before}, {after}"


@pytest.mark.parametrize("cost", [0, -1, 1_000_001, True, 1.5, "2"])
def test_what_no_step_can_cost_is_refused(routers: list[shoal.Bus], cost: object) -> None:
    with pytest.raises((shoal.ConfigError, TypeError), match="cost is"):
        routers[0].connect(url_of(routers[1]), cost=cost)  # type: ignore[arg-type]  # is refused
    with pytest.raises((shoal.ConfigError, TypeError), match="cost is"):
        routers[0].listen("tcp://127.0.0.1:0", cost=cost)  # type: ignore[arg-type]  # is refused
