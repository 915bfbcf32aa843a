"""The console's gate: 300 nodes and 5,000 queues, five viewers. Run it on a machine that does nothing else.

    .venv/bin/python tests/browser/long_gate.py

The domain is simulated: looks come from a generator, so that only the console is measured. Every second all
nodes count on and every twentieth queue changes. Five viewers read the stream of the page Queues; then a
browser opens the page. It prints the share of a core that the console's process took, without making the
looks, and the time to the first paint of rows.
"""

import http.client
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from shoal.console.config import ConsoleConfig
from shoal.console.look import Look
from shoal.console.service import ConsoleServer

NODES, QUEUES, VIEWERS, SECONDS = 300, 5000, 5, 20.0
CORE_MAX, PAINT_S_MAX = 0.03, 1.5
#: How often a store with so many queues is asked for them: its answer takes about 60 ms.
QUEUES_EVERY = 3


class Simulated:
    """Looks at a domain that there is not."""

    def __init__(self) -> None:
        self.turn = 0
        #: Processor time that making the looks took.
        self.took_s = 0.0

    def hurry(self) -> None:
        pass

    def look(self) -> Look:
        began = time.thread_time()
        turn = self.turn
        self.turn += 1
        statuses = [self._status(node, turn) for node in range(NODES)]
        stores = {"main": {"queues": [self._queue(number, turn) for number in range(QUEUES)]}}
        found = Look(
            at_s=time.monotonic(),
            wall_s=time.time(),
            statuses=statuses,
            members=[status["node"] for status in statuses],
            stores=stores if turn % QUEUES_EVERY == 0 else None,
        )
        self.took_s += time.thread_time() - began
        return found

    def _status(self, node: int, turn: int) -> dict[str, Any]:
        link = {
            "name": "norm://239.1.1.1:7474",
            "role": "group",
            "state": "up",
            "up": 1,
            "address": f"10.0.{node // 200}.{node % 200}:7474",
            "bytes_sent": 1000 * turn * (node % 7),
            "bytes_received": 9000 * turn,
            "messages_sent": 10 * turn * (node % 7),
            "messages_received": 90 * turn,
            "round_trip_s": 0.001,
        }
        return {
            "node": 1000 + node,
            "name": f"app-{node}",
            "kind": "program",
            "host": f"host-{node % 20}",
            "pid": 100 + node,
            "version": "1.0.0",
            "uptime_s": 1000.0 + turn,
            "healthy": True,
            "members": NODES,
            "rss_bytes": 50_000_000,
            "cpu_s": 0.02 * turn,
            "links": [link],
            "statistics": {"datagrams_sent": 100 * turn, "retransmit_requests": turn},
        }

    def _queue(self, number: int, turn: int) -> dict[str, Any]:
        return {
            "queue": f"orders/{number}",
            "name": f"orders/{number}",
            "messages": number % 500 + (turn if number % 20 == 0 else 0),
            "bytes": 100 * (number % 500),
            "in_flight": number % 3,
            "waiting": 0,
            "consumers": number % 4 + 1,
            "dead_letter": "dead-letters",
            "deliveries_max": 10,
            "expired": 0,
            "dropped": 0,
        }


def view(server: ConsoleServer, ended: threading.Event, counts: list[int]) -> None:
    """Read the stream as a browser does."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    headers = {"Authorization": f"Bearer {server.token}"}
    connection.request("GET", "/api/v1/events?tables=overview,alarms,queues", headers=headers)
    answer = connection.getresponse()
    while not ended.is_set():
        counts.append(len(answer.read1(1 << 20)))
    connection.close()


def paint_s(server: ConsoleServer, page_name: str, selector: str) -> float:
    """Time from opening a page, in a browser that is logged in, until its rows are there."""
    from console_world import CHROMIUM
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1360, "height": 800}).new_page()
        page.goto(str(server.login_url))
        page.wait_for_selector(".frame")
        page.goto("about:blank")
        began = time.monotonic()
        page.goto(f"{server.url}/#/{page_name}")
        page.wait_for_selector(selector)
        took = time.monotonic() - began
        if len(sys.argv) > 1:
            page.wait_for_timeout(1500)
            page.screenshot(path=f"{sys.argv[1]}/gate-{page_name}.png")
        browser.close()
    return took


def main() -> int:
    """Measure: 0 if both gates hold."""
    source = Simulated()
    with tempfile.TemporaryDirectory() as directory:
        config = ConsoleConfig(listen="127.0.0.1:0", data=Path(directory))
        with ConsoleServer(config, source=source, domain="simulated") as server:
            time.sleep(2.0)
            paints = {
                "queues": paint_s(server, "queues", "tbody tr[data-key]"),
                "map": paint_s(server, "map", ".tile"),
            }
            ended, counts = threading.Event(), [0]
            idle_s = cpu_s()
            time.sleep(2.0)
            idle_s = cpu_s() - idle_s
            viewers = [threading.Thread(target=view, args=(server, ended, counts)) for _ in range(VIEWERS)]
            for viewer in viewers:
                viewer.start()
            time.sleep(2.0)
            before_s, made_s, began_s = cpu_s(), source.took_s, time.monotonic()
            time.sleep(SECONDS)
            used_s = cpu_s() - before_s - (source.took_s - made_s)
            share = used_s / (time.monotonic() - began_s)
            ended.set()
            for viewer in viewers:
                viewer.join()
    print(f"{NODES} nodes, {QUEUES} queues, {VIEWERS} viewers that read {sum(counts) / 1e6:.1f} MB")
    print(f"the process took {share:.1%} of a core, with its viewers; at most {CORE_MAX:.0%} is wanted")
    for name, took in paints.items():
        print(f"{name}: rows after {took:.2f} s; at most {PAINT_S_MAX} s is wanted")
    return int(share > CORE_MAX or max(paints.values()) > PAINT_S_MAX)


def cpu_s() -> float:
    """Processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
