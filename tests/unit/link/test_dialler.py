"""When to connect again, without sockets or a clock."""

from typing import Any

import pytest

from shoal.config.target import Target
from shoal.link.backoff import Backoff
from shoal.link.dialler import Dialler


def dialler() -> Dialler:
    backoff = Backoff(1.0, chance=lambda: 1.0)
    made = Dialler(Target("tcp", "a", 1), backoff=backoff, refused_s=30.0)
    assert made.due_at(()) == 0.0
    made.begin()
    made.connection = 7
    assert made.due_at(()) is None
    return made


def news(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "publisher": 5, "why": "", **more}


def test_a_link_that_breaks_is_made_again_after_waits_that_grow_until_it_is_up() -> None:
    link = dialler()
    assert link.on_news(10.0, news("up")) is None
    assert (link.state, link.settled, link.publisher) == ("up", True, 5)
    assert link.on_news(20.0, news("broken", why="cut")) == 0.05
    assert (link.state, link.why, link.due_at(())) == ("reconnecting", "cut", 20.05)
    for delay_s in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        link.begin()
        assert link.fail(30.0, "nobody is there") == delay_s
        assert link.due_at(()) == 30.0 + delay_s
    link.begin()
    link.on_news(40.0, news("up"))
    assert link.on_news(50.0, news("left")) == 0.05
    assert "closed" in link.why


def test_every_address_of_a_host_is_tried_before_it_waits() -> None:
    link = dialler()
    link.addresses = ["10.0.0.2"]
    assert link.fail(1.0, "refused") == 0.0
    assert not link.settled
    link.addresses = []
    assert link.fail(1.0, "refused") == 0.05
    assert link.settled


def test_a_link_that_is_there_already_stands_by_until_it_is_gone() -> None:
    link = dialler()
    assert link.on_news(1.0, news("duplicate", publisher=9)) is None
    assert (link.state, link.settled) == ("standby", True)
    assert link.due_at({9}) is None
    assert link.due_at({8}) == 1.0
    link.begin()
    assert link.state == "reconnecting"


def test_a_refusal_is_tried_again_rarely_and_a_stale_session_at_once() -> None:
    link = dialler()
    assert link.on_news(1.0, news("refused", why="another domain")) == 30.0
    assert (link.state, link.why, link.due_at(())) == ("refused", "another domain", 31.0)
    link = dialler()
    assert link.on_news(1.0, news("stale", publisher=4)) is None
    assert (link.publisher, link.due_at(()), link.settled) == (4, 1.0, False)


@pytest.mark.parametrize("state", ["up", "connecting"])
def test_a_link_of_a_connection_that_closes_is_not_made_again(state: str) -> None:
    link = dialler()
    if state == "up":
        link.on_news(1.0, news("up"))
    assert link.on_news(2.0, news("closed")) is None
    assert link.due_at(()) is None
