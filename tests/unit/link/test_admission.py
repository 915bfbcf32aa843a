"""Who is let in at a listener: the owner's function decides, or a list."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tls_options import shown, trusting

import shoal
from shoal.errors import ConfigError, LinkRefusedError
from shoal.link import Guest
from shoal.link.admission import WAITING_MAX, Allowed, Doorkeeper, Verdict, refusal

KINDS = ["tcp", "tls", "ws", "wss"]


def guest(address: str = "10.0.0.7:5000", identity: str = "") -> Guest:
    return Guest(link="tcp://0.0.0.0:7474", address=address, identity=identity, node=7, publisher=8)


def listen(kind: str, certs: Path, admit: Callable[[Guest], bool], **more: Any) -> shoal.Bus:
    own = {**shown(certs, "localhost"), **trusting(certs)} if kind in ("tls", "wss") else {}
    return shoal.listen(f"{kind}://127.0.0.1:0", admit=admit, **own, **more)


def leaf(kind: str, certs: Path, hub: shoal.Bus) -> shoal.Bus:
    own = {**shown(certs, "leaf"), **trusting(certs)} if kind in ("tls", "wss") else {}
    return shoal.connect(hub.links[-1].url, **own)


def refused_at(hub: shoal.Bus) -> shoal.LinkRefused:
    return next(event for event in hub.events(timeout_s=30) if isinstance(event, shoal.LinkRefused))


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_decides_who_is_let_in_and_the_other_end_hears_why_not(kind: str, certs: Path) -> None:
    asked: list[Guest] = []

    def admit(guest: Guest) -> bool:
        asked.append(guest)
        if len(asked) == 1:
            raise LinkRefusedError("come back on Monday")
        return True

    with listen(kind, certs, admit) as hub:
        with pytest.raises(LinkRefusedError, match="refuses us: come back on Monday"):
            leaf(kind, certs, hub)
        told = refused_at(hub)
        assert (told.link, told.why) == (hub.links[-1].url, "come back on Monday")
        assert hub.links[-1].refused == 1
        with hub.subscribe("a") as heard, leaf(kind, certs, hub) as let_in:
            let_in.publish("a", 1)
            assert heard.receive(30).body == 1
            assert asked[1].node == let_in.node
            assert asked[1].publisher == let_in.publisher
        (first, second) = asked
        assert first.link == hub.links[-1].url
        assert first.address.startswith("127.0.0.1:")
        assert first.identity == second.identity == ("leaf" if kind in ("tls", "wss") else "")


@pytest.mark.parametrize(
    ("admit", "why", "logged"),
    [
        (lambda _: False, "it is not let in", ""),
        (lambda _: 1 / 0, "the function that decides who is let in failed", "ZeroDivisionError"),
        (lambda _: "yes", "the function that decides who is let in did not say", "returned 'yes'"),
    ],
    ids=["no", "fails", "says neither"],
)
def test_nobody_is_let_in_by_mistake(
    admit: Callable[[Guest], bool], why: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "shoal.link"):
        assert refusal(admit, guest()) == Verdict(why)
    assert logged in caplog.text


def test_what_cannot_decide_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError, match="admit is 'sensor1'"):
        shoal.listen("tcp://127.0.0.1:0", admit="sensor1")  # type: ignore[arg-type]  # is refused

    async def decide(_: Guest) -> bool:
        return True

    with pytest.raises(TypeError, match="must be a plain function"):
        shoal.listen("tcp://127.0.0.1:0", admit=decide)  # type: ignore[arg-type]  # is refused
    with pytest.raises(ConfigError, match="none does on udp://"):
        shoal.listen("udp://127.0.0.1:7474", admit=lambda _: True)


def test_one_place_may_ask_and_another_not() -> None:
    with shoal.listen("tcp://127.0.0.1:0", admit=lambda _: False) as hub:
        open_to_all = hub.listen("tcp://127.0.0.1:0")
        with shoal.connect(open_to_all) as let_in:
            assert let_in.members == [hub.node]
        with pytest.raises(LinkRefusedError, match="it is not let in"):
            shoal.connect(hub.links[-2].url)


def test_a_list_names_certificates_and_networks() -> None:
    allowed = Allowed(["sensor*", "gateway", "10.0.0.0/8", "2001:db8::7"])
    for welcome in (
        guest("192.0.2.1:1", "sensor12"),
        guest("192.0.2.1:1", "gateway"),
        guest("10.200.3.4:1"),
        guest("[::ffff:10.1.1.1]:1"),
        guest("[2001:db8::7]:1"),
    ):
        assert allowed(welcome)
    for stranger in (guest("192.0.2.1:1"), guest("[2001:db8::8]:1", "gateways"), guest("/dev/ttyS0", "")):
        with pytest.raises(LinkRefusedError, match="is not on the list"):
            allowed(stranger)
    with pytest.raises(ConfigError, match=r"'10\.0\.0\.1/8' is no network"):
        Allowed(["10.0.0.1/8"])


def test_only_so_many_wait_to_be_decided_about() -> None:
    began, go_on, over = (threading.Event() for _ in range(3))
    decided: list[tuple[int, str | None]] = []

    def note(number: int, guest: Guest, why: str | None) -> None:
        decided.append((number, why))
        over.set()

    def admit(_: Guest) -> bool:
        began.set()
        return go_on.wait(60)

    doorkeeper = Doorkeeper(note)
    assert doorkeeper.ask(0, admit, guest())
    assert began.wait(60)
    number = 0
    while doorkeeper.ask(number + 1, admit, guest()):
        number += 1
        assert number <= WAITING_MAX + 1, "nothing bounds it"
    go_on.set()
    assert over.wait(60)
    assert decided[0] == (0, None)
    doorkeeper.stop()
