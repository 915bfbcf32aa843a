"""Who hears a store: whoever waits, or the channel's own thread, and never two at once."""

import threading
from collections.abc import Callable

from shoal.bus.store_ear import HERES, REPLIES, WAKE, Ear
from shoal.errors import ClosedError

PATIENCE_S = 30.0


def ear(hear: Callable[[], None] = lambda: None, expects: bool = False) -> Ear:
    return Ear(hear, lambda: expects)


def test_whoever_waits_hears_until_his_answer_is_there() -> None:
    heard: list[int] = []
    listening = ear(lambda: heard.append(len(heard)))
    listening.bell.ring(REPLIES)
    listening.hear(lambda: bool(heard), PATIENCE_S)
    assert heard == [0]


def test_whoever_waits_for_what_does_not_come_waits_no_longer_than_asked() -> None:
    listening = ear()
    listening.hear(lambda: False, 0.0)
    listening.hear(lambda: False, 0.001)
    turns: list[list[int]] = []
    listening.ring()
    listening.run_once(lambda: 1000, turns.append)
    assert turns == [[WAKE]]


def test_what_is_no_answer_is_left_to_the_thread() -> None:
    listening = ear()
    listening.bell.ring(HERES)
    listening.hear(lambda: False, PATIENCE_S)
    turns: list[list[int]] = []
    listening.run_once(lambda: 60_000, turns.append)
    assert turns == [[HERES]]


def test_a_link_that_broke_is_left_to_the_thread() -> None:
    def broken() -> None:
        raise ClosedError("the link is closed")

    listening = ear(broken)
    listening.bell.ring(REPLIES)
    listening.hear(lambda: False, PATIENCE_S)
    turns: list[list[int]] = []
    listening.run_once(lambda: 60_000, turns.append)
    assert turns == [[WAKE]]


def test_nobody_hears_while_the_thread_does() -> None:
    heard: list[str] = []
    listening = ear(lambda: heard.append("here"))
    began, go_on = threading.Event(), threading.Event()

    def turn(rang: list[int]) -> None:
        began.set()
        go_on.wait(PATIENCE_S)

    thread = threading.Thread(target=listening.run_once, args=(lambda: 60_000, turn))
    listening.ring()
    thread.start()
    began.wait(PATIENCE_S)
    listening.bell.ring(REPLIES)
    listening.hear(lambda: False, PATIENCE_S)
    assert heard == []
    go_on.set()
    listening.ring()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_thread_that_rests_comes_when_it_is_called() -> None:
    listening, turns = ear(), list[list[int]]()
    listening.hear(lambda: True, None)
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            listening.run_once(lambda: 60_000, turns.append)

    thread = threading.Thread(target=run)
    thread.start()
    while len(turns) < 5:
        listening.ring()
    stopped.set()
    listening.ring()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
