"""Leaving: whoever keeps up gets everything, and whoever does not is named."""

import pytest
from conftest import StartPeers
from programs import Program, run_script
from test_delivery import whole

PUBLISH = """
import sys, shoal
from traffic import make_body
with shoal.connect(sys.argv[1]) as bus:
    assert bus.wait_for_subscribers("a", timeout_s=60)
    for number in range(int(sys.argv[2])):
        bus.publish("a", make_body(0, number, 20_000))
"""
#: The same, when it is told to.
PUBLISH_LATER = PUBLISH.replace("    for", "    print('{}', flush=True)\n    sys.stdin.readline()\n    for")
#: The same, without closing.
PUBLISH_AND_END = PUBLISH_LATER.replace("with shoal", "bus = shoal").replace(" as bus:", "\nif True:")


def test_a_slow_reader_gets_everything_before_its_publisher_leaves(start: StartPeers, url: str) -> None:
    (reader,) = start(1)
    reader.ask("subscribe", pattern="a", read=False)
    reader.ask("read", pattern="a", pause_s=0.005)
    ran = run_script(PUBLISH, url, "600")
    assert (ran.returncode, ran.stderr) == (0, "")
    whole(reader.ask("wait_received", pattern="a", source=0, count=600), 0, 600)


def test_the_same_in_an_event_loop(start: StartPeers, url: str) -> None:
    (reader,) = start(1)
    reader.ask("subscribe", pattern="a", read=False)
    reader.ask("read", pattern="a", pause_s=0.005)
    ran = run_script(
        """
import asyncio, sys, shoal
from traffic import make_body
async def main():
    async with shoal.aio.connect(sys.argv[1]) as bus:
        assert await bus.wait_for_subscribers("a", timeout_s=60)
        for number in range(600):
            await bus.publish("a", make_body(0, number, 20_000))
asyncio.run(main(), debug=False)
""",
        url,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    whole(reader.ask("wait_received", pattern="a", source=0, count=600), 0, 600)


def test_a_publisher_that_leaves_a_frozen_reader_says_who_lacks_how_much(start: StartPeers, url: str) -> None:
    (frozen,) = start(1)
    frozen.ask("subscribe", pattern="a", read=False)
    node = frozen.ask("node")["node"]
    publisher = Program(["-c", PUBLISH_LATER, url, "100"])
    try:
        publisher.answer()
        frozen.freeze()
        publisher.tell("go")
        lacks = rf"closed before every member had every message: .*member {node} lacks about [\d.]+ \w+"
        publisher.finish(says=rf"SHOAL-2114 <Bus norm:.* {lacks}")
        assert publisher.errors.count("lacks about") == 1
    finally:
        publisher.kill()


#: Whole programs that keep no connection, with one message each.
UNKEPT = {
    "a line": """
shoal.connect(sys.argv[1]).publish("a", make_body(0, 0, 100))
""",
    "a function": """
def publish():
    bus = shoal.connect(sys.argv[1])
    bus.publish("a", make_body(0, 0, 100))
publish()
""",
    "an event loop": """
import asyncio
async def main():
    await shoal.aio.connect(sys.argv[1]).publish("a", make_body(0, 0, 100))
asyncio.run(main(), debug=False)
""",
}


@pytest.mark.parametrize("how", UNKEPT)
def test_a_connection_that_a_program_keeps_nowhere_delivers(start: StartPeers, url: str, how: str) -> None:
    (reader,) = start(1)
    reader.ask("subscribe", pattern="a")
    ran = run_script(f"import sys, shoal.aio\nfrom traffic import make_body{UNKEPT[how]}", url)
    assert (ran.returncode, ran.stderr) == (0, "")
    whole(reader.ask("wait_received", pattern="a", source=0, count=1), 0, 1)


def test_one_that_cannot_deliver_says_so_while_the_program_goes_on(start: StartPeers, url: str) -> None:
    (frozen,) = start(1)
    frozen.ask("subscribe", pattern="a", read=False)
    frozen_first = """
import sys, time, shoal
from traffic import make_body
def publish():
    bus = shoal.connect(sys.argv[1])
    assert bus.wait_for_subscribers("a", timeout_s=60)
    print('{}', flush=True)
    sys.stdin.readline()
    for number in range(100):
        bus.publish("a", make_body(0, number, 20_000))
publish()
time.sleep(5)
"""
    publisher = Program(["-c", frozen_first, url])
    try:
        publisher.answer()
        frozen.freeze()
        publisher.tell("go")
        publisher.finish(says=r"SHOAL-2114 <Bus norm:.* closed before every member had every message")
    finally:
        publisher.kill()


def test_a_program_that_ends_without_closing_says_it_too(start: StartPeers, url: str) -> None:
    (frozen,) = start(1)
    frozen.ask("subscribe", pattern="a", read=False)
    publisher = Program(["-c", PUBLISH_AND_END, url, "100"])
    try:
        publisher.answer()
        frozen.freeze()
        publisher.tell("go")
        publisher.finish(says=r"SHOAL-2120 <Bus norm:.* was open when the program ended")
    finally:
        publisher.kill()


def test_slow_members_are_logged_though_nobody_asks_for_events(start: StartPeers, url: str) -> None:
    frozen, healthy = start(2)
    frozen.ask("subscribe", pattern="a", read=False)
    healthy.ask("subscribe", pattern="a")
    node = frozen.ask("node")["node"]
    publisher = Program(
        [
            "-c",
            """
import sys, shoal
bus = shoal.connect(sys.argv[1])
assert bus.wait_for_subscribers("a", 2, timeout_s=60)
print("{}", flush=True)
sys.stdin.readline()
for _ in range(2000):
    bus.publish("a", bytes(10_000))
bus.close(0.5)
""",
            url,
        ]
    )
    try:
        publisher.answer()
        frozen.freeze()
        publisher.tell("go")
        publisher.finish(says=rf"SHOAL-2107 Member {node} \(host \S+, process \d+\) stopped reading")
        assert publisher.errors.count("SHOAL-2107") == 1
    finally:
        publisher.kill()


def test_a_reader_that_stood_still_when_its_publisher_left_says_that_something_may_be_missing(
    start: StartPeers, url: str
) -> None:
    # A socket's buffer so small that the goodbye does not fit into it.
    (reader,) = start(1, receive_buffer_bytes=1 << 16, heartbeat_s=0.3)
    reader.ask("subscribe", pattern="a")
    publisher = Program(["-c", PUBLISH_LATER, f"{url}&heartbeat_s=0.3", "100"])
    try:
        publisher.answer()
        reader.freeze()
        publisher.tell("go")
        publisher.finish(says=r"lacks about [\d.]+ \w+")
    finally:
        publisher.kill()
    reader.thaw()
    assert reader.ask("wait_event", event="MemberLeft", timeout_s=60)["failed"] is True
    assert reader.ask("received", pattern="a")["received"]["0"]["count"] < 100
    reader.finish(says=r"Lost contact with member \d+ .* Its last messages may be missing")


def test_a_reader_names_what_it_lacks_of_a_publisher_that_left(start: StartPeers, url: str) -> None:
    # A queue and windows so small that most of it never reaches the reader.
    small = {"receive_window_bytes": 1 << 16}
    (reader,) = start(1, **small)
    reader.ask("subscribe", pattern="a", read=False, queue_bytes_max=1 << 14)
    publisher = Program(["-c", PUBLISH, url, "90"])
    try:
        publisher.finish(says=r"closed before every member had every message")
    finally:
        publisher.kill()
    reader.ask("read", pattern="a")
    lost = reader.ask("wait_event", event="MessagesLost", timeout_s=60)
    assert lost["publisher"] > 0
    assert 0 < lost["first"] <= lost["last"] == 90
    tally = reader.ask("received", pattern="a")["received"]["0"]
    assert tally["count"] <= lost["first"] - 1
