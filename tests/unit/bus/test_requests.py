"""Questions and answers: one, many, none, and the ones that fail."""

import threading
import time
from typing import Any

import pytest

import shoal
from shoal.errors import ClosedError, NoReplyError, NoRespondersError, RemoteError


def test_a_request_that_nobody_subscribes_to_fails_at_once(bus: shoal.Bus) -> None:
    began = time.monotonic()
    with pytest.raises(NoRespondersError, match="nobody subscribes to 'nobody'"):
        bus.request("nobody", timeout_s=60)
    assert time.monotonic() - began < 5


def test_whoever_was_asked_and_failed_is_named_with_the_error(
    bus: shoal.Bus, other: shoal.Bus, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: shoal.Message) -> None:
        raise LookupError(f"no price of {request.body}")

    other.subscribe("price", answer)
    with pytest.raises(RemoteError, match="no price of ACME") as failure:
        bus.request("price", "ACME", timeout_s=60)
    assert (failure.value.error, failure.value.node) == ("LookupError", other.node)
    assert f"{other.node}" in str(failure.value)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_request_under_way_ends_when_its_connection_is_closed(domain: str, other: shoal.Bus) -> None:
    asked = threading.Event()
    other.subscribe("deaf", lambda _: asked.set())
    bus = shoal.connect(domain)
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            bus.request("deaf", timeout_s=60)
        except ClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(10)
    bus.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(raised) == 1


def test_answers_come_one_by_one_until_the_last(bus: shoal.Bus, other: shoal.Bus) -> None:
    def answer(request: shoal.Message) -> None:
        for number in range(request.body):
            other.reply(request, number, more=True)
        other.reply(request, "end")

    other.subscribe("count", answer)
    assert [answer.body for answer in bus.request_many("count", 3)] == [0, 1, 2, "end"]


def test_everybody_who_subscribes_is_waited_for(domain: str, bus: shoal.Bus) -> None:
    others = [shoal.connect(domain) for _ in range(3)]
    for number, each in enumerate(others):
        each.subscribe("who", lambda request, each=each, number=number: each.reply(request, number))
    assert sorted(answer.body for answer in bus.request_many("who")) == [0, 1, 2]
    first_two = bus.request_many("who", responders=2)
    assert len(list(first_two)) == 2
    for each in others:
        each.close()


def test_an_answerer_that_stops_in_the_middle_is_told_apart_from_the_end(
    bus: shoal.Bus, other: shoal.Bus
) -> None:
    other.subscribe("half", lambda request: other.reply(request, 1, more=True))
    answers = bus.request_many("half", timeout_s=0.05)
    assert next(answers).body == 1
    with pytest.raises(NoReplyError, match=r"1 answers came on 'half', and then none within 0\.05 s"):
        next(answers)


@pytest.mark.parametrize("responders", [0, -1])
def test_a_number_of_answerers_that_cannot_be_is_refused(bus: shoal.Bus, responders: int) -> None:
    with pytest.raises(ValueError, match="responders"):
        bus.request_many("who", responders=responders)


def test_properties_of_an_answer_arrive_beside_what_kind_it_is(bus: shoal.Bus, other: shoal.Bus) -> None:
    def answer(request: shoal.Message) -> None:
        other.reply(request, 1, properties={"part": 1}, more=True)
        other.reply(request, 2, properties={"part": 2})

    other.subscribe("parts", answer)
    parts: list[Any] = [reply.properties["part"] for reply in bus.request_many("parts")]
    assert parts == [1, 2]
