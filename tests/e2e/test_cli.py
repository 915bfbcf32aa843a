"""`shoal pub`, `sub`, `request`, `reply` and `members` as a user runs them, on the loopback interface."""

import json
import os
import re
import signal
import subprocess
import sys
import time
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


def start(command: str, domain: str, *options: str, output: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*SHOAL, command, *options, "--domain", domain, "--interface", "lo"],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", text: str | None = None) -> tuple[int, str, str]:
    try:
        output, errors = process.communicate(text, timeout=90)
    finally:
        process.kill()
    return process.returncode, output, errors


def test_what_is_published_is_printed(bus: shoal.Bus, domain: str) -> None:
    watching = start("sub", domain, "prices/*", "--count", "1")
    assert bus.wait_for_subscribers("prices/ACME", 1, 60)
    bus.publish("prices/ACME", {"bid": 10.25})
    status, output, errors = finish(watching)
    assert (status, errors) == (0, "")
    assert output.endswith('prices/ACME {"bid": 10.25}\n')


def test_a_message_goes_from_one_command_to_the_other_with_all_it_has(bus: shoal.Bus, domain: str) -> None:
    watching = start("sub", domain, ">", "--count", "2", "--json")
    assert bus.wait_for_subscribers("a", 1, 60)
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
        while len(bodies) < 2 and (message := subscription.receive(60)):
            bodies.append(message.body)
    assert bodies == ["one", "two"]


def test_the_last_value_comes_first_and_then_what_is_published(bus: shoal.Bus, domain: str) -> None:
    keeper = start("pub", domain, "prices/ACME", "10.25", "--retain", "--json-body")
    try:
        assert keeper.stderr is not None
        assert "retaining the last value of prices/ACME until Ctrl-C" in keeper.stderr.readline()
        watching = start("sub", domain, "prices/*", "--retained", "--json", "--count", "2")
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["body"] == 10.25
        bus.publish("prices/ACME", 10.75)
        status, output, _ = finish(watching)
        assert (status, json.loads(output)["body"]) == (0, 10.75)
    finally:
        keeper.terminate()
        assert finish(keeper)[0] == 143


def test_publishing_to_nobody_says_so(domain: str) -> None:
    status, output, errors = finish(start("pub", domain, "a", "x", "--wait", "0.1"))
    assert (status, output) == (0, "")
    assert errors == "shoal pub: published 1; no program subscribes to a\n"


def test_an_answer_is_printed(bus: shoal.Bus, domain: str) -> None:
    bus.subscribe("upper", lambda question: bus.reply(question, question.body.upper()))
    assert finish(start("request", domain, "upper", "hello")) == (0, "HELLO\n", "")


def test_no_answer_is_one_clear_line(domain: str) -> None:
    status, output, errors = finish(start("request", domain, "nobody", "--timeout", "0.2"))
    assert (status, output) == (1, "")
    assert errors == "shoal request: no program subscribes to 'nobody': no answer within 0.2 s\n"


def test_a_selector_and_a_correlation_filter_choose(bus: shoal.Bus, domain: str) -> None:
    options = ["--selector", "region = 'EU'", "--correlation", "[#5;#7]", "--count", "1", "--json"]
    watching = start("sub", domain, "a", *options)
    assert bus.wait_for_subscribers("a", 1, 60)
    for number, region in enumerate(["US", "EU", "EU"]):
        bus.publish("a", number, properties={"region": region}, correlation_id=f"#{number + 3}")
    bus.publish("a", "right", properties={"region": "EU"}, correlation_id="#6")
    status, output, errors = finish(watching)
    assert (status, errors) == (0, "")
    assert json.loads(output)["body"] in (2, "right")


def test_thirty_thousand_lines_take_moments(bus: shoal.Bus, domain: str) -> None:
    watching = start("sub", domain, "a", "--count", "30000", "--timeout", "20")
    assert bus.wait_for_subscribers("a", 1, 60)
    began = time.monotonic()
    for number in range(30_000):
        bus.publish("a", {"number": number, "text": "\x1b[2J"}, properties={"n": number})
    status, output, errors = finish(watching)
    assert (status, errors) == (0, "")
    assert len(output.splitlines()) == 30_000
    assert "\x1b" not in output
    # Generous, for a busy machine: what it must not become is a line at a time by a formatter of rich text.
    assert time.monotonic() - began < 15


def test_a_template_answers(bus: shoal.Bus, domain: str) -> None:
    answering = start(
        "reply", domain, "price/*", '{"of": "$topic", "asked": "$body"}', "--json-body", "--count", "1"
    )
    assert bus.wait_for_subscribers("price/ACME", 1, 60)
    assert bus.request("price/ACME", "bid", timeout_s=60).body == {"of": "price/ACME", "asked": "bid"}
    status, output, errors = finish(answering)
    assert (status, errors) == (0, "")
    assert output.endswith("price/ACME bid\n")


def test_a_command_answers_and_so_does_its_failure(bus: shoal.Bus, domain: str) -> None:
    command = 'if [ "$SHOAL_TOPIC" = bad ]; then echo "no such thing" >&2; exit 3; fi; tr a-z A-Z'
    answering = start("reply", domain, "*", "--command", command, "--count", "2", "--quiet")
    assert bus.wait_for_subscribers("good", 1, 60)
    assert bus.request("good", "hello", timeout_s=60).body == "HELLO"
    with pytest.raises(shoal.RemoteError, match="the command failed: no such thing"):
        bus.request("bad", timeout_s=60)
    status, output, errors = finish(answering)
    assert (status, output) == (0, "")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d shoal reply: SHOAL-2111 error: A callback raised an exception on topic bad: "
        r"RuntimeError: the command failed: no such thing\.\n",
        errors,
    )


def test_many_answers_are_printed(bus: shoal.Bus, domain: str) -> None:
    def answer(question: shoal.Message) -> None:
        for number in range(3):
            bus.reply(question, number, more=number < 2)

    bus.subscribe("count", answer)
    assert finish(start("request", domain, "count", "--many")) == (0, "0\n1\n2\n", "")


def test_members_are_listed_with_what_they_subscribe_to(bus: shoal.Bus, domain: str) -> None:
    with bus.subscribe("prices/*"), bus.subscribe("orders/>"):
        status, output, errors = finish(start("members", domain, "--json"))
    assert (status, errors) == (0, "")
    assert json.loads(output) == {"event": "member", "node": bus.node, "patterns": ["orders/>", "prices/*"]}


def test_nobody_there_is_one_clear_line(domain: str) -> None:
    status, output, errors = finish(start("members", domain, "--wait", "0.3"))
    assert (status, output, errors) == (1, "", "shoal members: no member answered within 0.3 s\n")


@pytest.mark.parametrize(
    ("command", "options", "expected", "said"),
    [
        ("pub", ["a//b", "x"], 2, '"a//b" is no topic: the level at position 2 is empty'),
        ("pub", ["a", "{", "--json-body"], 2, "the body is not JSON"),
        ("pub", ["a", "x", "--property", "region"], 2, "a property is given as NAME=VALUE, not 'region'"),
        ("pub", ["a", "x", "--property", "a b=1"], 2, 'the property "a b": no selector could ask for it'),
        ("request", ["a", "{", "--json-body"], 2, "the body is not JSON"),
        ("request", ["a//b"], 2, "the level at position 2 is empty"),
        ("reply", ["a//b", "x"], 2, '"a//b" is no pattern: the level at position 2 is empty'),
        ("sub", ["a", "--url", "smoke://"], 2, "unknown scheme 'smoke'"),
        ("sub", ["a/+"], 2, "wildcard of MQTT"),
        ("sub", ["a", "--correlation", "[["], 2, "at position"),
        ("sub", ["a", "--timeout", "0.1"], 1, "no message on a within 0.1 s"),
    ],
)
def test_a_mistake_is_one_clear_line(
    command: str, options: list[str], expected: int, said: str, domain: str
) -> None:
    status, output, errors = finish(start(command, domain, *options))
    assert (status, output) == (expected, "")
    assert errors.startswith(f"shoal {command}: ")
    assert said in errors
    assert errors.count("\n") == (3 if "--correlation" in options else 1)


def test_a_caret_stands_under_the_mistake_in_a_selector(domain: str) -> None:
    selector = "region = 'EU'  AND  bid >> 5"
    status, _, errors = finish(start("sub", domain, "a", "--selector", selector))
    assert status == 2
    _, shown, marker = errors.splitlines()
    assert shown.strip() == selector
    assert marker.index("^") == shown.index(">>") + 1


def test_a_line_of_standard_input_that_is_no_json_is_named(domain: str) -> None:
    options = ["a", "--stdin", "--json-body", "--wait", "0"]
    status, _, errors = finish(start("pub", domain, *options), "1\n{\n")
    assert status == 1
    assert errors.startswith("shoal pub: line 2 of standard input: the body is not JSON")


@pytest.mark.parametrize("options", [[], ["--count", "2"]])
@pytest.mark.parametrize("output", ["a closed pipe", "a full disk"])
def test_a_reply_that_cannot_print_answers_and_ends(
    output: str, options: list[str], bus: shoal.Bus, domain: str
) -> None:
    if output == "a full disk":
        where = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, where = os.pipe()
        os.close(reader)
    process = start("reply", domain, "a", "x", *options, output=where)
    os.close(where)
    assert bus.wait_for_subscribers("a", 1, 60)
    assert bus.request("a", timeout_s=60).body == "x"
    status, _, errors = finish(process)
    assert status == 1
    assert errors == (
        "" if output == "a closed pipe" else "shoal reply: [Errno 28] No space left on device\n"
    )


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("sub", [">"]),
        ("pub", ["a", "x", "--count", "0"]),
        ("reply", [">", "x"]),
        ("members", ["--watch", "--wait", "0"]),
    ],
)
@pytest.mark.parametrize(("ending", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_end_quietly_and_say_goodbye(
    command: str, options: list[str], ending: signal.Signals, expected: int, bus: shoal.Bus, domain: str
) -> None:
    with bus.subscribe("a") as subscription:
        process = start(command, domain, *options)
        if command in ("sub", "reply"):
            assert bus.wait_for_subscribers("anything", 1, 60)
        elif command == "members":
            assert process.stdout is not None
            process.stdout.readline()
        else:
            assert subscription.receive(60) is not None
        process.send_signal(ending)
        status, output, errors = finish(process)
    assert (status, errors) == (expected, "")
    assert command == "members" or output == ""
    left = next(event for event in bus.events(5) if isinstance(event, shoal.MemberLeft))
    assert not left.failed
