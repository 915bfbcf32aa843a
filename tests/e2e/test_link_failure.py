"""A link whose socket is gone: whoever waits for it learns why, and nobody hangs."""

import textwrap

import pytest
from programs import run_script

BREAK = """
import os, socket, stat, sys, threading, shoal

def break_sockets():
    "Put something that is no socket in the place of every UDP socket."
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
        except OSError:
            continue
        with socket.socket(fileno=os.dup(fd)) as copy:
            datagrams = copy.type == socket.SOCK_DGRAM and copy.family == socket.AF_INET
        if datagrams:
            os.dup2(nothing, fd)

bus = shoal.connect(sys.argv[1])
subscription = bus.subscribe("a")
threading.Timer(0.5, break_sockets).start()
"""

WAITS = {
    "receive": "subscription.receive(60)",
    "iterate": "for _ in subscription: pass",
    "publish": "while True: bus.publish('a', bytes(1000), timeout_s=60); subscription.receive(0)",
    "wait": "bus.wait_for_subscribers('nobody', 5, timeout_s=60)",
    "flush": "while True: bus.publish('b', b''); bus.flush(60)",
}


@pytest.mark.parametrize("what", WAITS)
def test_whoever_waits_for_a_link_that_fails_is_told_why(url: str, what: str) -> None:
    script = (
        BREAK
        + "try:\n"
        + textwrap.indent(WAITS[what], "    ")
        + "\nexcept shoal.LinkError as error:\n    print(error)\n"
        + "events = [event for event in bus.events(1) if type(event).__name__ == 'LinkFailed']\n"
        + "print(len(events), bus.close(1.0))\n"
    )
    ran = run_script(script, url)
    lines = ran.stdout.splitlines()
    assert "the link failed: norm: its socket is gone" in lines[0], ran
    assert lines[1].startswith("1 "), ran
