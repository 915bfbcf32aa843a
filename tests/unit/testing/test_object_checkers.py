"""The checkers of objects and commands are fed a real run with the one thing broken they look for."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from shoal.testing import CheckError, Event, History, Link, ObjectKey, SentObject, Simulation, check_all
from shoal.testing.checkers import (
    Checker,
    acked_objects_delivered,
    commands_sent,
    objects_complete,
    objects_intact,
    objects_once,
)

SENDER, RECEIVER = 1, 2
FIRST = ObjectKey(SENDER, 1, 0)


@pytest.fixture(scope="module")
def run() -> History:
    """Two objects, the first with information, and a command, through loss; the first is acknowledged."""
    simulation = Simulation(seed=3, link=Link(loss=0.1, delay_s=0.001), repeat="make it so")
    sender = simulation.add_node(rate_bytes_per_s=1e6)
    receiver = simulation.add_node(sync="all")
    sender.set_ackers([receiver])
    first = sender.send_data(b"one" * 1_000, info=b"the first")
    assert first == FIRST.object
    sender.request_watermark(first)
    sender.send_data(b"two" * 1_000)
    sender.send_command(b"listen", times=5)
    assert simulation.run_until_holds(objects_complete(RECEIVER), within_s=10.0)
    simulation.run_for(1.0)
    return simulation.history()


def with_events(run: History, node: int, change: Callable[[list[Event]], list[Event]]) -> History:
    """The run, with what a node was told changed."""
    record = run.nodes[node]
    return replace(run, nodes={**run.nodes, node: replace(record, events=change(list(record.events)))})


def without(*kinds: str) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [event for event in events if event.kind not in kinds]


def twice(kind: str) -> Callable[[list[Event]], list[Event]]:
    return lambda events: events + [event for event in events if event.kind == kind]


def saying(kind: str, **fields: object) -> Callable[[list[Event]], list[Event]]:
    """Other fields in every event of a kind."""

    def change(events: list[Event]) -> list[Event]:
        return [
            event._replace(fields={**event.fields, **fields}) if event.kind == kind else event
            for event in events
        ]

    return change


def aborted(events: list[Event]) -> list[Event]:
    fields = {"sender": SENDER, "instance": 1, "stream": FIRST.object, "reason": "expired"}
    return [*events, Event(9.0, "object_aborted", fields)]


def test_the_run_has_all_that_is_looked_at(run: History):
    check_all(run, objects_complete(RECEIVER))
    told = {event.kind for event in run.nodes[RECEIVER].events}
    assert told >= {"object_opened", "info", "data_received", "command_received"}
    [done] = [event for event in run.nodes[SENDER].events if event.kind == "watermark_done"]
    assert done.fields["acked"] == [RECEIVER]


@pytest.mark.parametrize(
    ("change", "checker", "says"),
    [
        (twice("data_received"), objects_once, "data_received of .* after data_received"),
        (aborted, objects_once, "object_aborted of .* after data_received"),
        (
            lambda events: aborted(aborted(without("data_received")(events))),
            objects_once,
            "after object_aborted",
        ),
        (saying("data_received", content=b"forged"), objects_intact, "other bytes than were sent"),
        (saying("data_received", stream=77), objects_intact, "object 77 .*, never sent"),
        (saying("data_received", instance=2), objects_intact, r"instance 2\), never sent"),
        (saying("object_opened", sender=5), objects_intact, "of node 5 .*, never sent"),
        (saying("info", content=b"forged"), objects_intact, "other information than was sent"),
        (without("info"), objects_intact, "without its information"),
        (without("data_received"), acked_objects_delivered, "acknowledged object 0 .* did not receive it"),
        (saying("command_received", content=b"forged"), commands_sent, "b'forged' that node 1 never gave"),
        (saying("command_received", sender=5), commands_sent, "that node 5 never gave"),
        (without("data_received"), objects_complete(RECEIVER), "lacks object 0"),
        (
            lambda events: aborted(without("data_received")(events)),
            objects_complete(RECEIVER),
            "lacks object 0",
        ),
    ],
)
def test_a_tampered_run_is_caught(run: History, change, checker: Checker, says: str):
    with pytest.raises(CheckError, match=says) as caught:
        checker(with_events(run, RECEIVER, change))
    assert "seed 3" in str(caught.value)
    assert "repeat with: make it so" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        twice("data_received"),
        saying("data_received", content=b"forged"),
        without("data_received"),
        saying("command_received", content=b"forged"),
    ],
)
def test_check_all_looks_at_objects_and_commands(run: History, change):
    with pytest.raises(CheckError):
        check_all(with_events(run, RECEIVER, change))


def test_information_with_an_object_that_was_sent_without_any_is_caught(run: History):
    bare = {key: sent._replace(info=b"") for key, sent in run.objects.items()}
    with pytest.raises(CheckError, match="other information than was sent"):
        objects_intact(replace(run, objects=bare))


def test_information_may_be_lacking_only_if_its_sender_had_let_go_of_it(run: History):
    uninformed = with_events(run, RECEIVER, without("info"))
    objects_intact(replace(uninformed, released={FIRST: 0.0}))
    with pytest.raises(CheckError, match="without its information"):
        objects_intact(replace(uninformed, released={FIRST: 1e6}))


def test_information_may_be_lacking_only_if_its_sender_was_gone(run: History):
    def gone(instance: int) -> Callable[[list[Event]], list[Event]]:
        event = Event(0.0, "sender_gone", {"sender": SENDER, "instance": instance, "reason": "restarted"})
        return lambda events: [event, *without("info")(events)]

    objects_intact(with_events(run, RECEIVER, gone(1)))
    with pytest.raises(CheckError, match="without its information"):
        objects_intact(with_events(run, RECEIVER, gone(2)))


def test_an_object_that_was_let_go_is_settled_once_its_receiver_was_told(run: History):
    lacking = with_events(run, RECEIVER, without("data_received"))
    let_go = dict.fromkeys(run.objects, 0.5)
    with pytest.raises(CheckError, match="lacks"):
        objects_complete(RECEIVER, objects=[FIRST])(replace(lacking, released=let_go))
    told = with_events(lacking, RECEIVER, aborted)
    objects_complete(RECEIVER, objects=[FIRST])(replace(told, released=let_go))


def test_a_node_that_started_over_may_have_forgotten_what_it_acknowledged(run: History):
    forgot = with_events(run, RECEIVER, without("data_received"))
    started_over = replace(forgot.nodes[RECEIVER], started_at_s=0.5)
    acked_objects_delivered(replace(forgot, nodes={**forgot.nodes, RECEIVER: started_over}))
    sent_after = {key: SentObject(0.6, sent.content, sent.info) for key, sent in run.objects.items()}
    with pytest.raises(CheckError, match="did not receive it"):
        acked_objects_delivered(
            replace(forgot, nodes={**forgot.nodes, RECEIVER: started_over}, objects=sent_after)
        )
