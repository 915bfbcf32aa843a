"""Programs that may take no more memory: what there is none for raises or is told as lost, and they go on."""

import subprocess
import sys

import pytest

#: What every program begins with. Sizes are far apart, so that it does not matter what else takes memory.
BEGIN = """
import resource, shoal
LARGE = 48 << 20

def limit(spare=16 << 20):
    # What the allocator takes for a thread that just began is more for a moment than it keeps.
    pages = min(int(open("/proc/self/statm").read().split()[0]) for _ in range(500))
    taken = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + spare, -1))

def unlimit():
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))

def refuses(action, *arguments):
    try:
        action(*arguments)
    except MemoryError as error:
        return True
    return False
"""


def run(program: str, *arguments: str) -> str:
    """What a program printed; an abort would be a failure."""
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN + program, *arguments], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


def test_publishing_what_there_is_no_memory_for_raises_and_nobody_gets_it() -> None:
    program = """
import array
with shoal.connect("inproc://none") as bus, bus.subscribe("x", queue_bytes_max=1 << 30) as reader:
    bodies = [bytes(LARGE), bytearray(LARGE), [bytes(LARGE // 2)] * 2, array.array("B", bytes(LARGE))]
    limit()
    refused = [refuses(bus.publish, "x", body) for body in bodies]
    refused.append(refuses(lambda: shoal.Message("x", bodies[0])))
    bus.publish("x", b"small")
    unlimit()
    print(refused, reader.receive(5).body, reader.pending, bus.publish("x", bodies[0]))
"""
    assert run(program) == f"{[True] * 5} b'small' 0 2\n"


def test_publishing_over_a_link_raises_as_well(url: str) -> None:
    program = """
import sys
with shoal.connect(sys.argv[1]) as bus, shoal.connect(sys.argv[1]) as other, other.subscribe("x") as reader:
    bus.wait_for_subscribers("x")
    body = bytes(LARGE)
    limit()
    refused = refuses(bus.publish, "x", body)
    unlimit()
    bus.publish("x", b"small")
    print(refused, reader.receive(60).body)
"""
    assert run(program, url) == "True b'small'\n"


def test_a_message_there_is_no_memory_for_is_lost_to_its_reader_and_told() -> None:
    program = """
with shoal.connect("inproc://none") as bus, bus.subscribe("x", queue_bytes_max=1 << 30) as reader:
    bus.publish("x", bytes(LARGE))
    number = bus.publish("x", b"small")
    limit()
    print(reader.receive(5).body)
    unlimit()
    lost = [event for event in bus.events(timeout_s=1) if isinstance(event, shoal.MessagesLost)]
    print([(event.first, event.last) for event in lost], reader.pending)
"""
    assert run(program) == "b'small'\n[(1, 1)] 0\n"


def test_a_body_there_is_no_memory_for_raises_when_it_is_asked_for_and_can_be_asked_for_again() -> None:
    program = """
with shoal.connect("inproc://none") as bus, bus.subscribe("x", queue_bytes_max=1 << 30) as reader:
    for body in ("x" * LARGE, ["x" * LARGE], {"a": bytes(LARGE)}):
        bus.publish("x", body)
        message = reader.receive(5)
        limit()
        refused = refuses(lambda: message.body)
        unlimit()
        print(refused, message.body == body)
"""
    assert run(program) == "True True\n" * 3


@pytest.mark.parametrize("callback", [False, True])
def test_a_member_without_memory_for_what_comes_is_told_and_goes_on(url: str, callback: bool) -> None:
    program = """
import subprocess, sys, threading
url, callback = sys.argv[1], sys.argv[2] == "True"
if len(sys.argv) > 3:
    with shoal.connect(url) as bus:
        bus.wait_for_subscribers("x")
        bus.publish("x", bytes(LARGE))
        bus.publish("x", b"small")
    sys.exit()
with shoal.connect(url) as bus:
    got, came = [], threading.Event()
    def take(message):
        got.append(message.body)
        came.set()
    reader = bus.subscribe("x", take) if callback else bus.subscribe("x")
    publisher = subprocess.Popen([sys.executable, "-c", PROGRAM, url, "False", "publish"])
    limit()
    if callback:
        came.wait(30)
    else:
        take(reader.receive(30))
    unlimit()
    told = {type(event) for event in bus.events(timeout_s=1)} & {shoal.Unreadable, shoal.MessagesLost}
    print(got, bool(told), publisher.wait(30))
"""
    whole = "PROGRAM = None" + BEGIN + program
    told = run(f"PROGRAM = {whole!r}\n{program}", url, str(callback))
    assert told == "[b'small'] True 0\n"


def test_an_object_there_is_no_memory_for_raises_or_is_told(port: int) -> None:
    program = """
import sys, time
from shoal._core import NormLink
options = dict(group="239.192.74.216", port=int(sys.argv[1]), interface="lo")
options |= dict(lanes=0, sync="all", grtt_initial_s=0.002)
sender, receiver = NormLink(1, seed=1, **options), NormLink(2, seed=2, **options)
content = bytes(LARGE)
limit()
refused = refuses(sender.send_data, content)
unlimit()
sender.send_data(content)
until, told = time.monotonic() + 30, None
while told is None and time.monotonic() < until:
    # Complete, and not handed over yet.
    if receiver.stats()["payload_bytes_received"] >= LARGE:
        time.sleep(0.2)
        limit()
        told = [kind for kind, _ in receiver.receive(timeout_s=5)][-1]
        unlimit()
sender.close(0.0)
receiver.close(0.0)
print(refused, told)
"""
    assert run(program, str(port)) == "True object_aborted\n"


def test_connecting_without_memory_for_threads_raises_and_does_not_wait() -> None:
    program = """
kinds = {
    "norm": lambda: shoal.connect("norm://239.192.74.178:7978?interface=lo"),
    "udp": lambda: shoal.connect("udp://239.192.74.178:7979?interface=lo"),
    "tcp": lambda: shoal.connect("tcp://127.0.0.1:1"),
    "listen": lambda: shoal.listen("tcp://127.0.0.1:0"),
}
for kind, connect in kinds.items():
    # What is imported now need not be imported then.
    connect().close()
    # From no room at all to room for a few connections.
    for spare in (0, 20_000, 8_400_000, 12_000_000, 21_000_000, 24_000_000, 31_000_000):
        made = []
        limit(spare)
        try:
            while len(made) < 10:
                made.append(connect())
            why = "there was no limit"
        except shoal.errors.LinkError as error:
            why = str(error)
        unlimit()
        assert "ulimit -v" in why, (kind, spare, why)
        for bus in made:
            bus.close()
print("over")
"""
    assert run(program) == "over\n"
