"""A store with tokens and TLS: what clients, readers and those who pose as either get."""

import logging
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from secured_site import Site

import shoal
from shoal.cli.token import new
from shoal.config import ConnectionConfig
from shoal.config.tokens import Token, read_token
from shoal.errors import ConfigError, HistoryError, ShoalError, StoreDeniedError, StoreUnavailableError
from shoal.store import Store
from shoal.store.asking import ask_store
from shoal.store.config import resolve


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path, f"site-{secrets.token_hex(4)}", **getattr(request, "param", {}))
    yield made
    made.store.close()


SECURE = {"tls": True, "flight": "127.0.0.1:0"}


def test_a_client_with_a_token_is_served_and_one_without_is_told(site: Site) -> None:
    with site.connect(token_file=site.token("ann")) as bus:
        bus.queue("orders").send("one")
        message = bus.queue("orders").receive(5)
        assert message is not None
        assert message.body == "one"
    with site.connect() as bus, pytest.raises(StoreDeniedError, match="asks for a token"):
        bus.queue("orders").send("two", timeout_s=5)
    assert site.store.status()["denied"] >= 1


def test_a_forged_token_is_refused(site: Site) -> None:
    with site.connect(token=Token.new("ann").text) as bus, pytest.raises(StoreDeniedError, match="'ann'"):
        bus.queue("orders").send("one", timeout_s=8)


def test_a_client_with_a_token_believes_no_store_that_proves_nothing(tmp_path: Path) -> None:
    config = resolve(tmp_path / "data", listen="127.0.0.1:0")
    with Store(config, ConnectionConfig(scheme="inproc", domain="posing")) as impostor:
        impostor.wait_open(10)
        token = Token.new("ann").text
        with (
            shoal.connect("inproc://posing", store=impostor.urls[0], token=token) as bus,
            pytest.raises(StoreDeniedError, match="did not prove"),
        ):
            bus.publish("t", "secret", persistent=True, timeout_s=8)
        assert impostor.status()["end"] == 0, "nothing was stored there, and nothing said to be"


def test_tokens_change_while_the_store_runs(site: Site) -> None:
    site.token("ann").unlink()
    new("ann", site.path / "tokens", site.token("ann"), "client", replace=True)
    site.store._turn()
    with site.connect(token_file=site.token("ann")) as bus:
        bus.queue("orders").send("one")


def test_a_command_shows_the_token_of_the_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with site.connect(token_file=site.token("ann"), client_id="desk") as bus:
        bus.subscribe("t/>", durable="mine").close()
    status = {**site.store.status(), "stale": False}
    with pytest.raises(StoreDeniedError):
        ask_store(status, "unsubscribe", name="mine", shared=False, client_id="desk")
    monkeypatch.setenv("SHOAL_TOKEN_FILE", str(site.token("bob")))
    with pytest.raises(StoreDeniedError, match="desk"):
        ask_store(status, "unsubscribe", name="mine", shared=False, client_id="desk")
    monkeypatch.setenv("SHOAL_TOKEN_FILE", str(site.token("chief")))
    ask_store(status, "unsubscribe", name="mine", shared=False, client_id="desk")


@pytest.mark.parametrize("site", [SECURE], indirect=True)
def test_over_tls_a_client_pins_the_certificate(site: Site) -> None:
    fingerprint = site.store.fingerprint
    assert fingerprint is not None
    assert site.store.urls[0].startswith("tls://")
    token = site.token("ann")
    with site.connect(token_file=token, store_fingerprint=fingerprint) as bus:
        bus.queue("orders").send("one")
    wrong = "sha256:" + "00" * 32
    for timeout_s in (2, 8):
        with (
            site.connect(token_file=token, store_fingerprint=wrong) as bus,
            pytest.raises(StoreUnavailableError, match="its certificate is not the pinned one"),
        ):
            bus.queue("orders").send("two", timeout_s=timeout_s)
    with site.connect(token_file=token) as bus, pytest.raises(ShoalError):
        bus.queue("orders").send("three", timeout_s=8)


@pytest.mark.parametrize("site", [SECURE], indirect=True)
def test_history_asks_for_the_same_tokens_and_certificate(site: Site) -> None:
    from shoal import history

    assert site.store.endpoint is not None
    assert site.store.endpoint.startswith("grpc+tls://")
    with history.connect(site.path / "data", token_file=site.token("bob")) as reader:
        assert reader.info()["name"] == "store"
    with history.connect(site.path / "data") as reader, pytest.raises(HistoryError, match="missing"):
        reader.info()
    forged = Token.new("bob").text
    with (
        history.connect(site.path / "data", token=forged) as reader,
        pytest.raises(HistoryError, match="wrong"),
    ):
        reader.info()
    pinned = history.connect(site.store.endpoint, token_file=site.token("bob"), fingerprint="0" * 64)
    with pinned as reader, pytest.raises(StoreDeniedError, match="not the pinned one"):
        reader.info()


@pytest.mark.parametrize("site", [{}, SECURE], indirect=True)
def test_no_token_is_shown_anywhere(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    text = read_token(site.token("ann")).text
    secret = text.rpartition(":")[2]
    fingerprint = site.store.fingerprint
    with site.connect(token=text, store_fingerprint=fingerprint) as bus:
        bus.queue("orders").send("one")
        shown = repr(bus) + repr(bus.config) + repr(bus._connection.client) + repr(vars(bus._connection))
    shown += repr(site.store) + repr(site.store.config) + str(site.store.status()) + caplog.text
    shown += (site.path / "data" / "status.json").read_text() + (site.path / "tokens").read_text()
    assert secret not in shown
    for file in (site.path / "data").rglob("*"):
        assert secret.encode() not in (file.read_bytes() if file.is_file() else b"")


def test_a_token_cannot_be_given_on_a_command_line(tmp_path: Path) -> None:
    for command in ("store", "history"):
        given = [sys.executable, "-m", "shoal.cli", command, "--token", "x"]
        ran = subprocess.run(given, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 2
        assert "No such option" in ran.stderr


def test_what_travels_in_clear_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = resolve(tmp_path / "data", listen="0.0.0.0:0", flight="0.0.0.0:0")
    with Store(config, ConnectionConfig(scheme="inproc", domain="clear")):
        pass
    assert "asks for no token" in caplog.text
    assert "to every host that reaches it" in caplog.text
    assert "messages and names travel in clear" in caplog.text
    assert "tokens and rows travel in clear" in caplog.text
    caplog.clear()
    new("ann", tmp_path / "tokens", tmp_path / "ann", "client")
    config = resolve(tmp_path / "more", listen="0.0.0.0:0", tokens=tmp_path / "tokens", tls=True)
    with Store(config, ConnectionConfig(scheme="inproc", domain="clear")):
        pass
    assert "clear" not in caplog.text
    assert "asks for no token" not in caplog.text


def test_a_token_file_that_cannot_be_read_is_named_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokens is .*nowhere"):
        Store(
            resolve(tmp_path / "data", tokens=tmp_path / "nowhere"),
            ConnectionConfig(scheme="inproc", domain="nowhere"),
        )
