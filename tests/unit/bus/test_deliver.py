"""What a connection that closes waits for, and whom it names."""

from types import SimpleNamespace
from typing import cast

import pytest

from shoal.bus import operations
from shoal.bus.connection import Connection
from shoal.bus.undelivered import Undelivered
from shoal.errors import FlushError

ROUTER, OTHER = 7, 8


class PlainNode:
    """A node whose flushes go as they are told: for each, whom it waits for, and who was silent.

    `losers` are those that lost something, flush by flush, and `behind` those whom routers wait for.
    """

    def __init__(
        self, *flushes, unconfirmed=True, backlog=(0, []), losers=(), behind=(), members=(), unsettled=False
    ):
        self.flushes, self.unconfirmed, self.lacks = list(flushes), unconfirmed, backlog
        self.members, self.unsettled = list(members), unsettled
        self.behind = list(behind)
        self.losers = dict(enumerate(losers))
        self.open = []

    def stop(self):
        pass

    def backlog(self):
        return self.lacks

    def has_unconfirmed(self):
        return self.unconfirmed

    def begin_flush(self):
        self.open.append(self.flushes.pop(0) if len(self.flushes) > 1 else self.flushes[0])
        return len(self.open) - 1

    def flush_awaited(self, number):
        return self.open[number][0]

    def flush_is_unsettled(self, number):
        return self.unsettled

    def flush_behind(self, number):
        return self.behind

    def poll_flush(self, number):
        return self.open[number][1]

    def flush_losers(self, number):
        return self.losers.get(number, [])

    def end_flush(self, number):
        pass


def connected(node):
    return cast(
        "Connection",
        SimpleNamespace(
            node=node, check_open=lambda: None, storing=lambda: "", unreached=lambda: "", linked_at=0.0
        ),
    )


def said(undelivered):
    return [str(line) for line in undelivered.lines("it")]


def outcome(operation):
    while True:
        try:
            next(operation)
        except StopIteration as end:
            return end.value


@pytest.fixture(autouse=True)
def _no_other_way(monkeypatch):
    monkeypatch.setattr(operations, "_REROUTED_S", 0.0)


def deliver(node):
    return outcome(operations.deliver(connected(node), None, 0.01))


def test_a_router_that_did_not_say_that_those_behind_it_have_everything_is_named():
    undelivered = deliver(PlainNode(([ROUTER], None)))
    assert undelivered == Undelivered(unconfirmed=(ROUTER,))
    assert undelivered
    (line,) = said(undelivered)
    assert line.startswith(
        "SHOAL-2114 it closed before every member had every message: "
        "router 7 has not said that those behind it have everything. "
    )
    (line,) = (str(one) for one in undelivered.lines("it", at_exit=True))
    assert line.startswith("SHOAL-2120 it was open when the program ended")


def test_it_is_not_if_all_that_was_published_is_confirmed():
    assert not deliver(PlainNode(([ROUTER], None), unconfirmed=False))


def test_a_router_that_went_before_it_answered_is_named_if_nobody_answers_instead():
    assert deliver(PlainNode(([ROUTER], [ROUTER]), ([], []))) == Undelivered(unconfirmed=(ROUTER,))


def test_so_is_it_though_another_router_answers_which_does_not_know_what_the_first_had():
    node = PlainNode(([ROUTER], [ROUTER]), ([OTHER], []), members=[OTHER])
    assert deliver(node) == Undelivered(unconfirmed=(ROUTER,))


def test_so_is_a_router_behind_another_one():
    assert deliver(PlainNode(([ROUTER], [OTHER]), ([ROUTER], []), members=[ROUTER])) == Undelivered(
        unconfirmed=(OTHER,)
    )


def test_it_is_not_if_it_was_slow_and_answers_later():
    assert not deliver(PlainNode(([ROUTER], [ROUTER]), ([ROUTER], []), members=[ROUTER]))


def test_a_program_that_failed_is_not_named():
    assert not deliver(PlainNode(([ROUTER], [OTHER]), ([ROUTER], []), members=[ROUTER, OTHER]))


def test_a_close_during_which_paths_kept_changing_confirms_nothing():
    undelivered = deliver(PlainNode(([], None), unsettled=True))
    assert undelivered == Undelivered(unsettled=True)
    assert "the topology kept changing" in said(undelivered)[0]


def test_so_says_a_flush_and_a_sync():
    node = PlainNode(([], None), unsettled=True)
    node.begin_sync = node.begin_flush
    with pytest.raises(FlushError, match="the topology kept changing"):
        outcome(operations.flush(connected(node), 0.0, 0.0))
    with pytest.raises(FlushError, match="the topology kept changing"):
        outcome(operations.sync(connected(node), 0.0))


def test_a_flush_that_is_too_late_names_members_and_routers():
    node = PlainNode(([ROUTER], None), backlog=(0, [(OTHER, 100)]))
    with pytest.raises(FlushError, match="member 8 lacks about 100 bytes; router 7 has not said") as raised:
        outcome(operations.flush(connected(node), 0.0, 0.0))
    assert raised.value.silent == (ROUTER, OTHER)


def test_and_whom_routers_wait_for_if_they_said_it():
    node = PlainNode(([ROUTER, 9], None), behind=[(ROUTER, [5, OTHER])])
    expected = "; behind router 7, 5, 8 did not acknowledge everything; router 9 has not said"
    with pytest.raises(FlushError, match=expected) as raised:
        outcome(operations.flush(connected(node), 0.0, 0.0))
    assert raised.value.silent == (5, OTHER, 9)


def test_whoever_lost_messages_is_named_though_everybody_answers():
    node = PlainNode(([], []), losers=[[5, 9]])
    undelivered = outcome(operations.deliver(connected(node), None, 0.1))
    assert undelivered == Undelivered(losers=(5, 9))
    assert undelivered
    (line,) = said(undelivered)
    assert line.startswith(
        "SHOAL-2119 Messages of it are lost for good: members that did not take them in time: 5, 9. "
    )


def test_so_is_whom_the_first_flush_named_if_another_has_to_follow():
    node = PlainNode(([], [ROUTER]), ([], []), losers=[[5], [9]])
    assert outcome(operations.deliver(connected(node), None, 0.1)).losers == (5, 9)


def test_a_flush_names_who_was_silent_and_who_lost_messages():
    node = PlainNode(([], [ROUTER]), losers=[[5]])
    with pytest.raises(FlushError, match=r"everything: 7; member 5 did not .* lost some for good$") as error:
        outcome(operations.flush(connected(node), 1.0, None))
    assert (error.value.silent, error.value.lost_by) == ((ROUTER,), (5,))
