"""Whatever comes to a listener, of any kind: it is counted, closed with a reason, and disturbs nobody."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from strangers import Greeted, Stranger, begin_message, block, confirmation, hello
from tls_options import shown, trusting

import shoal
from shoal.bus.events import Event
from shoal.link import LinkState

KINDS = ["tcp", "tls", "ws", "wss"]
MB = 1 << 20


class Place:
    """A program that listens with links of every kind, and one that is connected to each."""

    def __init__(self, certs: Path) -> None:
        self.certs = certs
        own = shown(certs, "localhost") | trusting(certs)
        bounds = {"message_bytes_max": 4 * MB, "assembly_bytes_max": 8 * MB}
        self.hub = shoal.listen("tcp://127.0.0.1:0", missed_heartbeats_max=2, **bounds, **own)  # type: ignore[arg-type]
        self.urls = {"tcp": self.hub.links[-1].url}
        self.urls |= {kind: self.hub.listen(f"{kind}://127.0.0.1:0") for kind in KINDS[1:]}
        self.leaves = {
            kind: shoal.connect(url, **trusting(certs), **shown(certs, "leaf"), **bounds)  # type: ignore[arg-type]
            for kind, url in self.urls.items()
        }
        self.strangers: list[Stranger] = []
        self._events = self.hub.events()

    def stranger(self, kind: str) -> Stranger:
        """Somebody else who connects, for as long as a test lasts."""
        self.strangers.append(Stranger(self.urls[kind], self.certs))
        return self.strangers[-1]

    def listener(self, kind: str) -> LinkState:
        """The listener as it is now."""
        return next(one for one in self.hub.links if one.role == "listen" and one.url == self.urls[kind])

    def wait_for(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event of some kind."""
        return next(event for event in self._events if wanted(event))

    def refusal(self, kind: str) -> str:
        """Why somebody was refused at a listener, next."""
        told = self.wait_for(
            lambda event: isinstance(event, shoal.LinkRefused) and event.link == self.urls[kind]
        )
        assert isinstance(told, shoal.LinkRefused)
        assert told.address.startswith("127.0.0.1:")
        return told.why

    def check_undisturbed(self) -> None:
        """Messages pass between the listener and all who are connected."""
        for kind, leaf in self.leaves.items():
            with self.hub.subscribe(f"check/{kind}") as heard:
                assert leaf.wait_for_subscribers(f"check/{kind}", timeout_s=60)
                leaf.publish(f"check/{kind}", kind)
                assert heard.receive(60).body == kind

    def close(self) -> None:
        """End it all."""
        for leaf in self.leaves.values():
            leaf.close()
        self.hub.close()


@pytest.fixture(scope="module")
def place(certs: Path) -> Iterator[Place]:
    made = Place(certs)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def hang_up(place: Place) -> Iterator[None]:
    yield
    for stranger in place.strangers:
        stranger.close()
    place.strangers.clear()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_random_bytes_are_counted_and_closed_with_a_reason(place: Place, kind: str) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    before = place.listener(kind).refused
    for _ in range(10):
        stranger = place.stranger(kind)
        stranger.send(bytes([chance.randrange(0x80, 0x100)]) + chance.randbytes(chance.randrange(1, 3000)))
        assert stranger.receive_all() == b"", f"seed {seed}"
        assert place.refusal(kind) == "it does not speak Shoal's protocol"
    assert place.listener(kind).refused == before + 10
    place.check_undisturbed()


def test_another_version_is_refused_by_name_at_both_ends(place: Place, kind: str) -> None:
    stranger = place.stranger(kind)
    stranger.send(hello(1000, version=99))
    words = b"stranger 9.9 speaks version 99 of the wire format, and shoal"
    assert words in stranger.receive_all()
    assert place.refusal(kind).startswith(words.decode())


def test_random_bytes_after_a_greeting_end_that_connection_alone(place: Place, kind: str) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(5):
        stranger = place.stranger(kind)
        stranger.send(hello(2000 + number))
        assert b"SHOAL/" in stranger.receive()
        # A block of a kind that is known, which says nothing that can be read.
        stranger.send(confirmation() + block(chance.choice([2, 3, 4, 6]), b"") + chance.randbytes(2000))
        stranger.receive_all()
        told = place.wait_for(
            lambda event: isinstance(event, shoal.LinkDown) and event.link == place.urls[kind]
        )
        assert isinstance(told, shoal.LinkDown)
        assert told.why, f"seed {seed}"
        assert told.address.startswith("127.0.0.1:")
    place.check_undisturbed()


def test_who_greets_and_falls_silent_is_closed_after_the_heartbeats_it_promised(
    place: Place, kind: str
) -> None:
    stranger = place.stranger(kind)
    stranger.send(hello(3000, heartbeat_ms=100))
    assert b"SHOAL/" in stranger.receive()
    stranger.send(confirmation())
    assert b"nothing was heard for 0.2 s" in stranger.receive_all()


def test_who_says_nothing_or_one_byte_at_a_time_is_closed_by_every_kind_of_listener(place: Place) -> None:
    """All kinds at once, because each takes the 5 s that a greeting may."""
    silent = [place.stranger(kind) for kind in KINDS]
    slow = [place.stranger(kind) for kind in KINDS]
    greeting = hello(4000)
    # It would take them longer than 5 s to say it all.
    for at in range(len(greeting) // 2):
        for stranger in slow:
            stranger.send(greeting[at : at + 1])
        time.sleep(5.5 / (len(greeting) // 2))
    heard = [stranger.receive_all() for stranger in (*silent, *slow)]
    assert heard == [b""] * 8
    whys = [place.refusal(kind) for kind in ("tcp", "tls")]
    assert whys == ["it did not say who it is within 5 s"] * 2
    place.check_undisturbed()


def test_halves_of_many_long_messages_take_no_more_than_the_bound(place: Place, kind: str) -> None:
    """Ten peers begin messages of 4 MB each: no more than two whole ones of them are kept."""
    strangers = [place.stranger(kind) for _ in range(10)]
    half = begin_message(4 * MB - 100) + bytes(MB)
    base = 5000 + 100 * KINDS.index(kind)

    def send(stranger: Stranger, publisher: int) -> None:
        # The test may be over, and close it, before it was greeted.
        with contextlib.suppress(EOFError):
            Greeted(stranger, publisher).send(2, half)

    sending = [
        threading.Thread(target=send, args=(stranger, base + number))
        for number, stranger in enumerate(strangers)
    ]
    for thread in sending:
        thread.start()
    words = f"assembly_bytes_max is {8 * MB} bytes"
    place.wait_for(
        lambda event: (
            isinstance(event, shoal.Unreadable)
            and words in event.why
            and base <= event.node < base + len(strangers)
        )
    )
    place.check_undisturbed()
    for stranger in strangers:
        stranger.close()
    for thread in sending:
        thread.join(60)
