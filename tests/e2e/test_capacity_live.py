"""`shoal capacity live` beside a real daemon that routes."""

import json
import re
import subprocess
import sys
import threading
import urllib.request

import shoal
from shoal.processes.daemon import DaemonProcess

FILE = '[link.door]\nlisten = "tcp://127.0.0.1:0"\n[http]\nlisten = "127.0.0.1:0"\n'


def live(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "shoal.cli", "capacity", "live", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_it_counts_what_a_daemon_routes() -> None:
    with DaemonProcess(FILE) as daemon:
        address = re.search(r"http://127\.0\.0\.1:\d+", daemon.said)
        assert address is not None, daemon.said
        with urllib.request.urlopen(f"{address[0]}/status", timeout=10) as answer:
            (listener,) = json.load(answer)["links"]
        door = listener["url"]
        over = threading.Event()
        with shoal.connect(door) as reader, shoal.connect(door) as writer:
            reader.subscribe("load", lambda message: None)
            assert writer.wait_for_subscribers("load", 1, 20)

            def publish() -> None:
                while not over.wait(0.001):
                    for _ in range(50):
                        writer.publish("load", b"x" * 100)

            sending = threading.Thread(target=publish)
            sending.start()
            try:
                ran = live(address[0], "--seconds", "3", "--json")
            finally:
                over.set()
                sending.join()
    assert ran.returncode == 0, ran.stderr
    seconds = [json.loads(line) for line in ran.stdout.splitlines()]
    assert any(second["received_msg_s"] > 0 for second in seconds)
    assert all(0 <= second["load"] < 3 for second in seconds)


def test_an_address_where_no_daemon_answers_is_named() -> None:
    ran = live("http://127.0.0.1:1", "--seconds", "1")
    assert ran.returncode == 1
    assert "no daemon answers at http://127.0.0.1:1/status" in ran.stderr
