"""Questions and answers: one, many, none, and the ones that fail."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

import shoal
from shoal.bus.replies import Replies
from shoal.errors import ClosedError, NoReplyError, NoRespondersError, RemoteError


def test_a_request_that_nobody_subscribes_to_fails_at_once(bus: shoal.Bus) -> None:
    began = time.monotonic()
    with pytest.raises(NoRespondersError, match="no program subscribes to 'nobody'"):
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


class MuteError(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [(MuteError(), "RuntimeError in __str__"), (ValueError("\ud800"), r"\ud800")],
    ids=["raises", "surrogate"],
)
def test_an_asker_is_told_of_a_failure_whose_text_cannot_be_sent(
    error: Exception, text: str, bus: shoal.Bus, other: shoal.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A log with such text cannot be handed on by those who run tests beside each other.
    monkeypatch.setattr(logging.getLogger("shoal.bus"), "disabled", True)

    def answer(request: shoal.Message) -> None:
        raise error

    other.subscribe("price", answer)
    with pytest.raises(RemoteError) as failure:
        bus.request("price", timeout_s=60)
    assert failure.value.error == type(error).__name__
    assert text in str(failure.value)


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


def test_a_request_ends_when_the_last_of_those_it_asked_leaves(domain: str, bus: shoal.Bus) -> None:
    asked = threading.Barrier(3)
    others = [shoal.connect(domain) for _ in range(2)]
    for each in others:
        each.subscribe("deaf", lambda _: asked.wait(10))

    def leave() -> None:
        asked.wait(10)
        for each in others:
            each.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    began = time.monotonic()
    with pytest.raises(NoRespondersError, match="all programs that were asked on 'deaf' have left"):
        bus.request("deaf", timeout_s=60)
    assert time.monotonic() - began < 20
    leaving.join(10)


def test_the_same_with_asyncio(domain: str) -> None:
    async def main() -> None:
        asked = asyncio.Event()
        async with shoal.aio.connect(domain) as bus, shoal.aio.connect(domain) as other:
            other.subscribe("deaf", lambda _: asked.set())
            asking = asyncio.ensure_future(bus.request("deaf", timeout_s=60))
            await asked.wait()
            await other.close()
            with pytest.raises(NoRespondersError, match="have left"):
                await asking

    asyncio.run(asyncio.wait_for(main(), 30))


def test_whoever_stays_may_answer_though_it_subscribes_no_more(bus: shoal.Bus, other: shoal.Bus) -> None:
    def serve_one() -> None:
        with other.subscribe("once") as questions:
            ready.set()
            question = questions.receive(10)
        assert question is not None
        # The requester knows that nobody subscribes any more.
        while bus.subscribers("once"):
            time.sleep(0.001)
        other.reply(question, "late")

    ready = threading.Event()
    serving = threading.Thread(target=serve_one)
    serving.start()
    assert ready.wait(10)
    assert bus.request("once", timeout_s=10).body == "late"
    serving.join(10)


def test_the_answer_of_one_that_leaves_at_once_is_not_overtaken(domain: str, bus: shoal.Bus) -> None:
    for number in range(50):
        other = shoal.connect(domain)

        def answer(question: shoal.Message, other: shoal.Bus = other, number: int = number) -> None:
            other.reply(question, number)
            other.close(0)

        other.subscribe("short", answer)
        assert bus.request("short", timeout_s=10).body == number


def test_thousands_of_requests_at_once_are_each_looked_at_a_few_times(
    domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever changes makes a connection look at requests that wait: it may not change for each of them."""
    count, looks = 3000, 0
    check_topic = Replies._check_topic

    def counted(self: Replies, node: Any, topic: str, requests: list[tuple[str, Any]]) -> None:
        nonlocal looks
        looks += len(requests)
        check_topic(self, node, topic, requests)

    monkeypatch.setattr(Replies, "_check_topic", counted)

    async def main() -> None:
        async with shoal.aio.connect(domain) as bus, shoal.aio.connect(domain) as other:

            async def answer(question: shoal.Message) -> None:
                await other.reply(question, question.body)

            other.subscribe("echo", answer)
            answers = await asyncio.gather(*(bus.request("echo", n, timeout_s=60) for n in range(count)))
            assert [each.body for each in answers] == list(range(count))

    asyncio.run(asyncio.wait_for(main(), 60))
    assert count <= looks <= 10 * count
