"""`shoal pub`, `sub` and `request` as a user runs them: real processes on the loopback interface."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import shoal

SHOAL = [sys.executable, "-m", "shoal.cli"]


@pytest.fixture
def domain(request: pytest.FixtureRequest) -> str:
    """A domain of the test's own."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def bus(domain: str) -> Iterator[shoal.Bus]:
    with shoal.connect(domain=domain, interface="lo") as bus:
        yield bus


def start(command: str, domain: str, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*SHOAL, command, *options, "--domain", domain, "--interface", "lo"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", text: str | None = None) -> tuple[int, str, str]:
    try:
        output, errors = process.communicate(text, timeout=30)
    finally:
        process.kill()
    return process.returncode, output, errors


def test_what_is_published_is_printed(bus: shoal.Bus, domain: str) -> None:
    watching = start("sub", domain, "prices/*", "--count", "1")
    assert bus.wait_for_subscribers("prices/ACME", 1, 20)
    bus.publish("prices/ACME", {"bid": 10.25})
    status, output, errors = finish(watching)
    assert (status, errors) == (0, "")
    assert output.endswith('prices/ACME {"bid": 10.25}\n')


def test_a_message_goes_from_one_command_to_the_other_with_all_it_has(bus: shoal.Bus, domain: str) -> None:
    watching = start("sub", domain, ">", "--count", "2", "--json")
    assert bus.wait_for_subscribers("a", 1, 20)
    command = ["a/b", "7", "--json-body", "--property", "region=EU", "--priority", "9", "--ttl", "60"]
    assert finish(start("pub", domain, *command, "--count", "2")) == (0, "", "")
    status, output, _ = finish(watching)
    assert status == 0
    expected = {"topic": "a/b", "body": 7, "properties": {"region": "EU"}, "priority": 9, "ttl_s": 60.0}
    for line in output.splitlines():
        shown = json.loads(line)
        assert shown | expected == shown
    assert len(output.splitlines()) == 2


def test_lines_of_standard_input_are_published_one_by_one(bus: shoal.Bus, domain: str) -> None:
    with bus.subscribe("log") as subscription:
        assert finish(start("pub", domain, "log", "--stdin"), "one\ntwo\n")[0] == 0
        bodies = []
        while len(bodies) < 2 and (message := subscription.receive(10)):
            bodies.append(message.body)
    assert bodies == ["one", "two"]


def test_publishing_to_nobody_says_so(domain: str) -> None:
    status, output, errors = finish(start("pub", domain, "a", "x", "--wait", "0.1"))
    assert (status, output) == (0, "")
    assert errors == "shoal pub: published 1, and nobody subscribes to a\n"


def test_an_answer_is_printed(bus: shoal.Bus, domain: str) -> None:
    bus.subscribe("upper", lambda question: bus.reply(question, question.body.upper()))
    assert finish(start("request", domain, "upper", "hello")) == (0, "HELLO\n", "")


def test_no_answer_is_one_clear_line(domain: str) -> None:
    status, output, errors = finish(start("request", domain, "nobody", "--timeout", "0.2"))
    assert (status, output) == (1, "")
    assert errors == "shoal request: nobody subscribes to 'nobody': no answer within 0.2 s\n"


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("pub", ["a//b", "x"], "the level at position 2 is empty"),
        ("pub", ["a", "{", "--json-body"], "the body is not JSON"),
        ("pub", ["a", "x", "--property", "region"], "a property is given as NAME=VALUE, not 'region'"),
        ("sub", ["a", "--url", "smoke://"], "unknown scheme 'smoke'"),
        ("sub", ["a", "--timeout", "0.1"], "no message on a within 0.1 s"),
    ],
)
def test_a_mistake_is_one_clear_line(command: str, options: list[str], said: str, domain: str) -> None:
    status, output, errors = finish(start(command, domain, *options))
    assert (status, output) == (1, "")
    assert errors.startswith(f"shoal {command}: ")
    assert said in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(("command", "options"), [("sub", [">"]), ("pub", ["a", "x", "--count", "0"])])
def test_ctrl_c_ends_quietly(command: str, options: list[str], bus: shoal.Bus, domain: str) -> None:
    with bus.subscribe("a") as subscription:
        process = start(command, domain, *options)
        if command == "sub":
            assert bus.wait_for_subscribers("anything", 1, 20)
        else:
            assert subscription.receive(20) is not None
        process.send_signal(signal.SIGINT)
        status, output, errors = finish(process)
    assert (status, output, errors) == (130, "", "")
