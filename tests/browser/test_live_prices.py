"""The page with live prices in a real browser: prices, a selector, a new connection, the origin."""

import functools
import http.server
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
import shoal.aio
from shoal.gateway.config import GatewayConfig
from shoal.gateway.server import GatewayThread

PAGES = Path(__file__).parents[2] / "clients" / "js"
#: Says whether a page may connect.
DIAL = """new Promise((done) => {
  const socket = new WebSocket(%r);
  socket.onopen = () => done("open");
  socket.onerror = () => done("refused");
})"""
REGIONS = {"ACME": "EU", "EMCA": "US", "MACE": "EU"}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def origin() -> Iterator[str]:
    """Where the page is served."""
    handler = functools.partial(_Quiet, directory=str(PAGES))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def publish(bus: shoal.Bus, ended: threading.Event) -> None:
    number = 0
    while not ended.wait(0.01):
        name = list(REGIONS)[number % 3]
        bus.publish(f"prices/{name}", {"bid": 10 + number % 7 / 10}, properties={"region": REGIONS[name]})
        number += 1


def test_prices_appear_are_selected_and_come_back_with_the_gateway(chromium: Any, origin: str) -> None:
    domain, ended = f"inproc://prices-{secrets.token_hex(4)}", threading.Event()

    def gateway(url: str) -> GatewayThread:
        config = GatewayConfig(stomp=(url,), origins=(origin,))
        return GatewayThread(config, lambda: shoal.aio.connect(domain))

    with shoal.connect(domain) as bus:
        publisher = threading.Thread(target=publish, args=(bus, ended))
        publisher.start()
        page = chromium.new_page()
        try:
            first = gateway("ws://127.0.0.1:0")
            url = first.urls[0]
            page.goto(f"{origin}/example/?gateway={url}")
            page.wait_for_selector("#prices tr:nth-child(3) polyline")
            page.select_option("#region", "US")
            page.wait_for_function("document.querySelectorAll('#prices tr').length === 1")
            assert page.inner_text("#prices td") == "EMCA"
            first.close()
            page.wait_for_selector("#state[data-state=down]")
            with gateway(url):
                page.wait_for_selector("#state[data-state=up]")
                page.wait_for_function("parseInt(document.getElementById('rate').textContent) > 0")
                # A page of another origin is refused.
                other = chromium.new_page()
                other.goto(f"{origin.replace('127.0.0.1', 'localhost')}/example/?gateway={url}")
                assert other.evaluate(DIAL % url) == "refused"
                assert page.evaluate(DIAL % url) == "open"
                other.close()
        finally:
            ended.set()
            publisher.join()
            page.close()
