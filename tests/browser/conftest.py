"""A real domain - a daemon with a store, programs, traffic - and a console of it in a real browser.

Without Chromium these tests are skipped; with `CI=true` that is a failure.
"""

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from console_world import (
    CHROMIUM,
    DOMAIN,
    EDGE,
    GATEWAY,
    Open,
    World,
    connect,
    make_dead_letters,
    missing,
    publish,
)

from shoal.config.orders import HostKey
from shoal.config.tokens import Principal, Token, write_principals
from shoal.console.config import ConsoleConfig
from shoal.console.service import ConsoleServer
from shoal.processes.daemon import DaemonProcess


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if why := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def world(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("daemons")
    key = HostKey.new("rack")
    key.write(directory / "host.key")
    (directory / "edge.toml").write_text(EDGE.format(domain=DOMAIN))
    tokens = {role: Token.new(f"one-{role}") for role in ("viewer", "operator", "admin")}
    path = directory / "tokens"
    write_principals(
        path, [Principal(token.principal, role, token.verifier) for role, token in tokens.items()]
    )
    ended = threading.Event()
    with (
        DaemonProcess(GATEWAY.format(domain=DOMAIN, directory=directory)) as gateway,
        connect(answer=True) as bus,
    ):
        config = ConsoleConfig(
            listen="127.0.0.1:0", tokens=path, data=directory / "data", host_keys=(directory / "host.key",)
        )
        with ConsoleServer(config, connect) as server:
            prices = bus.subscribe("prices/*", queue_full="drop_old")
            publisher = threading.Thread(target=publish, args=(bus, ended))
            publisher.start()
            with connect(client_id="desk") as away:
                away.subscribe("prices/EURUSD", durable="audit").close()
            make_dead_letters(bus)
            yield World(server, bus, gateway, directory, tokens)
            ended.set()
            publisher.join()
            prices.close()


@pytest.fixture
def open_page(world: World, chromium: Any) -> Iterator[Open]:
    """Opens a page, logged in with a role; what the browser complains about fails the test."""
    contexts, problems = [], []

    def complain(message: Any) -> None:
        # What the server refused on purpose is logged by the browser, too.
        if message.type == "error" and "status of 4" not in message.text:
            problems.append(message.text)

    def open_(role: str | None = "operator", path: str = "map", **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1360, "height": 800}, **options})
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", complain)
        page.on("pageerror", lambda error: problems.append(str(error)))
        if role is None:
            page.goto(world.url)
        else:
            page.goto(f"{world.url}/#token={world.tokens[role].text}")
            page.wait_for_selector(".frame")
            page.evaluate(f"location.hash = '/{path}'")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not problems
